"""Inputs from and outputs to S3, on a real server of its protocol."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from test_run import Watcher

import tarmac
import tarmac.runs
import tarmac.training
from hostile import each_key
from tarmac.errors import RequestError, TarmacError
from tarmac.files import get_object, list_objects, put_object
from tarmac.files.objects import s3_config
from tarmac.jobs import create_run, parse_job, prepare, work_on
from tarmac.tasks.inputs import fetch_inputs
from tarmac.tasks.model import Input
from tarmac.training import Silent


class Line:
    """A line to a server that can be slow, be cut, or be dead.

    Attributes:
        cuts: For each connection in turn, after how many bytes of each direction it is cut; those
            that are left out stay.
        pause_s: Between packets of 64 KiB.
        connections: So many have come.
    """

    def __init__(self, port: int, *, cuts: tuple[int, ...] = (), pause_s: float = 0.0) -> None:
        self._port = port
        self.cuts = cuts
        self.pause_s = pause_s
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # A blocked accept would keep the port open.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                limit = self.cuts[self.connections] if self.connections < len(self.cuts) else None
                self.connections += 1
                theirs = socket.create_connection(("127.0.0.1", self._port))
                for pair in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._carry, args=(*pair, limit), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, limit: int | None) -> None:
        carried = 0
        with contextlib.suppress(OSError):
            while data := source.recv(2**16):
                carried += len(data)
                if limit is not None and carried > limit:
                    break
                target.sendall(data)
                threading.Event().wait(self.pause_s)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def line(s3, monkeypatch):
    """Return a function that puts a line between the job and the server."""
    made: list[Line] = []

    def put(**trouble) -> Line:
        port = int(os.environ["S3_ENDPOINT"].rpartition(":")[2])
        made.append(Line(port, **trouble))
        monkeypatch.setenv("S3_ENDPOINT", made[-1].address)
        return made[-1]

    yield put
    for one in made:
        one.close()


def run(text: str, tmp_path):
    job = parse_job(textwrap.dedent(text))
    tasks = prepare(job, tmp_path)
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


_COPY = """
name: x
command: cp large copy
inputs: [{from: "s3://bucket/large"}]
outputs: [{path: copy, to: "s3://bucket/out"}]
"""


@pytest.mark.parametrize(
    ("trouble", "connections"),
    [
        ({"pause_s": 0.002}, 1),
        ({"cuts": (2**20,)}, 2),
        ({"cuts": (2**20, 100, 2**21)}, 4),
    ],
    ids=["slow", "cut once", "cut three times"],
)
def test_a_slow_or_broken_line_loses_nothing(s3, line, tmp_path, trouble, connections):
    content = os.urandom(4 * 2**20)
    s3.put_object(Bucket="bucket", Key="large", Body=content)
    through = line(**trouble)
    ended = run(_COPY, tmp_path)
    assert ended.outcome == "succeeded", (ended.reason, ended.problems)
    assert s3.get_object(Bucket="bucket", Key="out/copy")["Body"].read() == content
    assert through.connections >= connections


def test_a_server_that_is_gone_for_good_is_said_and_local_outputs_are_kept(s3, line, tmp_path):
    line().close()
    ended = run(
        """
        name: x
        command: echo 1 > a
        outputs: [{path: a, to: "s3://bucket/x"}, {path: a, to: kept}]
        """,
        tmp_path,
    )
    assert ended.outcome == "failed"
    (problem,) = ended.problems
    assert problem.startswith("output a: s3://bucket/x/a: ")
    assert (tmp_path / "kept/a").read_text() == "1\n"


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


def test_a_training_is_copied_to_a_bucket(s3, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = tarmac.train("digits-mlp", epochs=1, output="s3://bucket/runs")
    assert made.path.parent.resolve() == (tmp_path / "runs").resolve()
    listed = s3.list_objects_v2(Bucket="bucket", Prefix=f"runs/{made.name}/")["Contents"]
    names = {entry["Key"].removeprefix(f"runs/{made.name}/") for entry in listed}
    assert {"run.json", "metrics.jsonl", "model.safetensors"} <= names
    record = s3.get_object(Bucket="bucket", Key=f"runs/{made.name}/run.json")["Body"].read()
    assert b'"completed"' in record


class Stop(Silent):
    def stepped(self, epoch, step, score):
        if (epoch, step) == (2, 3):
            os.kill(os.getpid(), signal.SIGTERM)


def status_in_bucket(s3, run: tarmac.runs.Run, prefix: str = "runs") -> str:
    stored = s3.get_object(Bucket="bucket", Key=f"{prefix}/{run.name}/run.json")["Body"].read()
    return json.loads(stored)["status"]


def test_a_resumed_training_is_copied_to_the_bucket_it_was_begun_for(s3, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stopped = tarmac.train("digits-mlp", epochs=3, output="s3://bucket/runs", reporter=Stop())
    assert status_in_bucket(s3, stopped) == "interrupted"
    resumed = tarmac.resume(stopped.path)
    assert status_in_bucket(s3, resumed) == "completed"


def test_a_training_may_be_resumed_with_a_bucket_for_its_copy(s3, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"epochs": 3, "reporter": Stop()}
    stopped = tarmac.train("digits-mlp", **options)
    assert tarmac.resume("latest", output="s3://bucket/late", reporter=Stop()).path.samefile(
        stopped.path
    )
    assert status_in_bucket(s3, stopped, "late") == "completed"


def test_a_training_whose_bucket_is_gone_is_whole_here(s3, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TarmacError, match="s3://none/") as caught:
        tarmac.train("digits-mlp", epochs=1, output="s3://none/runs")
    (path,) = (tmp_path / "runs").iterdir()
    assert str(path.name) in str(caught.value.hint)
    assert tarmac.runs.Run.open(path).record.status == "completed"


def test_an_unknown_store_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(RequestError, match="ftp:// is not known"):
        run('{name: x, command: echo, outputs: [{path: a, to: "ftp://x"}]}', tmp_path)


@each_key
def test_objects_of_any_name_go_out_and_come_in(s3, tmp_path, name):
    (tmp_path / "file").write_text(name)
    # The server of one test has what those of others have been given.
    above = tmp_path.name
    uri = f"s3://bucket/{above}/{name}"
    put_object(tmp_path / "file", uri, os.environ)
    listed = s3.list_objects_v2(Bucket="bucket", Prefix=f"{above}/")["Contents"]
    assert [entry["Key"] for entry in listed] == [f"{above}/{name}"]
    assert list_objects(f"s3://bucket/{above}", os.environ) == [uri]
    get_object(uri, tmp_path / "back", os.environ)
    assert (tmp_path / "back").read_text() == name
    work = tmp_path / "work"
    work.mkdir()
    fetch_inputs([Input(source=uri), Input(source=f"s3://bucket/{above}")], tmp_path, work)
    assert (work / name).read_text() == (work / above / name).read_text() == name


def test_a_key_that_no_store_takes_is_said(s3, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TarmacError, match="s3://bucket/one"):
        put_object(tmp_path / "file", "s3://bucket/one\ntwo", os.environ)


def test_a_checksum_for_a_directory_of_objects_is_refused(s3, tmp_path):
    s3.put_object(Bucket="bucket", Key="in/a.txt", Body=b"a")
    given = Input(source="s3://bucket/in", sha256="0" * 64)
    with pytest.raises(TarmacError, match="sha256 is that of one file"):
        fetch_inputs([given], tmp_path, tmp_path)
