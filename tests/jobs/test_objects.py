"""Inputs from and outputs to S3, on a real server of its protocol."""

from __future__ import annotations

import os
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from moto.server import ThreadedMotoServer
from test_run import Watcher

from tarmac.errors import RequestError
from tarmac.jobs import create_run, parse_job, prepare, work_on
from tarmac.storage import list_objects
from tarmac.storage._objects import s3_config


@pytest.fixture
def s3(monkeypatch):
    """Return a client of a server that the variables name as TensorFlow's did."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "hunter2hunter2",
        "AWS_REGION": "us-east-1",
        "S3_ENDPOINT": f"{host}:{port}",
        "S3_USE_HTTPS": "0",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    yield client
    server.stop()


def run(text: str, tmp_path):
    job = parse_job(textwrap.dedent(text))
    tasks = prepare(job, tmp_path, {})
    watcher = Watcher()
    work_on(create_run(job, tmp_path, tasks, tmp_path / "runs"), watcher)
    return watcher.ends["x"]


def test_inputs_come_from_a_bucket_and_outputs_go_there(s3, tmp_path):
    s3.put_object(Bucket="bucket", Key="in/data.txt", Body=b"data")
    ended = run(
        """
        name: x
        command: mkdir out && cp data.txt out/copy.txt
        inputs: [{from: "s3://bucket/in/data.txt"}]
        outputs: [{path: out, to: "s3://bucket/results/"}]
        """,
        tmp_path,
    )
    assert ended.outcome == "succeeded", (ended.reason, ended.problems)
    found = s3.get_object(Bucket="bucket", Key="results/out/copy.txt")["Body"].read()
    assert found == b"data"


def test_what_is_no_object_is_the_directory_of_what_lies_below(s3, tmp_path):
    for key in ("in/a.txt", "in/deep/b.txt", "in/c.bin", "in/no.txt", "other/d.txt"):
        s3.put_object(Bucket="bucket", Key=key, Body=key.encode())
    ended = run(
        """
        name: x
        command: cat a.txt deep/b.txt in/c.bin && test ! -e no.txt -a ! -e c.bin
        inputs:
          - {from: "s3://bucket/in", to: ., include: ["*.txt"], exclude: [no.txt]}
          - {from: "s3://bucket/in/"}
        """,
        tmp_path,
    )
    assert ended.outcome == "succeeded", (ended.reason, ended.problems)


def test_an_object_goes_into_the_tasks_directory_by_its_name(s3, tmp_path):
    s3.put_object(Bucket="bucket", Key="in/a.txt", Body=b"a")
    text = '{name: x, command: cat a.txt, inputs: [{from: "s3://bucket/in/a.txt", to: .}]}'
    assert run(text, tmp_path).outcome == "succeeded"


def test_objects_are_listed_by_their_uris(s3):
    for key in ("list/b", "list/a", "listed"):
        s3.put_object(Bucket="bucket", Key=key, Body=b"")
    found = list_objects("s3://bucket/list", os.environ)
    assert found == ["s3://bucket/list/a", "s3://bucket/list/b"]
    assert set(found) < set(list_objects("s3://bucket", os.environ))


def test_a_bucket_that_is_not_there_is_said_and_the_other_output_is_kept(s3, tmp_path):
    ended = run(
        """
        name: x
        command: echo 1 > a
        outputs: [{path: a, to: "s3://none/x"}, {path: a, to: "s3://bucket/x"}]
        """,
        tmp_path,
    )
    assert ended.outcome == "failed"
    (problem,) = ended.problems
    assert problem.startswith("output a: s3://none/x/a: ")
    assert "hunter2" not in problem
    assert s3.get_object(Bucket="bucket", Key="x/a")["Body"].read() == b"1\n"


def test_a_missing_object_fails_its_task(s3, tmp_path):
    ended = run('{name: x, command: echo, inputs: [{from: "s3://bucket/none"}]}', tmp_path)
    assert ended.reason.startswith("not started: s3://bucket/none: ")


def test_a_server_that_fails_at_first_is_asked_again(monkeypatch, tmp_path):
    asked: list[str] = []

    class Failing(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            asked.append(self.path)
            self.send_response(503 if len(asked) < 3 else 200)
            self.send_header("ETag", '"x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        ended = run(
            '{name: x, command: echo 1 > a, outputs: [{path: a, to: "s3://bucket/x"}]}', tmp_path
        )
        server.shutdown()
    assert ended.outcome == "succeeded", ended.problems
    assert asked == ["/bucket/x/a"] * 3


@pytest.mark.parametrize(
    ("variables", "endpoint", "client"),
    [
        ({}, None, set()),
        ({"S3_ENDPOINT": "host:9000"}, "https://host:9000", set()),
        ({"S3_ENDPOINT": "host:9000", "S3_USE_HTTPS": "0"}, "http://host:9000", {"allow_http"}),
        ({"S3_ENDPOINT": "h", "S3_VERIFY_SSL": "0"}, "https://h", {"allow_invalid_certificates"}),
        ({"AWS_ENDPOINT_URL": "http://a", "S3_ENDPOINT": "b"}, "http://a", {"allow_http"}),
    ],
)
def test_the_variables_of_tensorflows_file_system_are_obeyed(variables, endpoint, client):
    config, options = s3_config(variables)
    assert config.get("endpoint") == endpoint
    assert set(options) - {"timeout"} == client


def test_an_unknown_store_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(RequestError, match="ftp:// is not known"):
        run('{name: x, command: echo, outputs: [{path: a, to: "ftp://x"}]}', tmp_path)
