"""Ray's Jobs interface: what each answer and each silence means; where, and by which token."""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import json
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.errors import RequestError
from tarmac.ray import NoAnswer, RayJobs, Refused, Submission, dashboard_address, read_token

MINE = Submission(name="tarmac-1-1", entrypoint="true")


@dataclasses.dataclass
class Answer:
    """The answer of a server to every request."""

    status: int
    body: bytes


@contextlib.contextmanager
def answering(status: int, body: bytes):
    """Serve one answer for all; yields its address and what it was asked."""
    with serving(Answer(status, body)) as (address, asked):
        yield address, asked


@contextlib.contextmanager
def serving(answer: Answer):
    """Serve an answer that may change meanwhile; yields as `answering` does."""
    asked: list[tuple[str, str, dict[str, str], bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # The end is noticed at the next look for it: by default twice a second.
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


def test_a_token_is_sent_and_is_in_no_words_and_no_repr():
    with answering(403, b"Forbidden: hunter2hunter2") as (address, asked):
        jobs = RayJobs(address, "hunter2hunter2")
        refused = jobs.submit(MINE)
    assert asked[0][2]["Authorization"] == "Bearer hunter2hunter2"
    assert isinstance(refused, Refused)
    assert refused.words == f"{address} does not take the token"
    assert "RAY_AUTH_TOKEN_PATH" in refused.hint
    assert "hunter2" not in f"{refused}{jobs!r}{vars(refused)}"


def test_without_a_token_a_cluster_that_wants_one_says_so():
    with answering(401, b"Unauthorized: Missing authentication token") as (address, asked):
        refused = RayJobs(address).version()
    assert "Authorization" not in asked[0][2]
    assert refused == Refused(401, f"{address} asks for a token", refused.hint)


@pytest.mark.parametrize("status", [400, 500])
def test_a_job_of_that_name_that_is_there_is_this_one(status):
    said = (
        "Traceback (most recent call last):\n  File x\n"
        "ValueError: Job with submission_id tarmac-1-1 already exists. Please use a different one."
    )
    with answering(status, said.encode()) as (address, asked):
        assert RayJobs(address).submit(MINE) == "tarmac-1-1"
    assert json.loads(asked[0][3])["submission_id"] == "tarmac-1-1"


def test_what_ray_does_not_do_is_its_reason_without_its_trace():
    said = "Traceback (most recent call last):\n  File x\nValueError: no such thing\n"
    with answering(400, said.encode()) as (address, _):
        assert RayJobs(address).submit(MINE) == Refused(400, "ValueError: no such thing")


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b"No available agent to submit job"), (503, b""), (200, b"<html>"), (200, b"[]")],
)
def test_what_says_nothing_of_a_submission_is_silence(status, body):
    with answering(status, body) as (address, _):
        assert isinstance(RayJobs(address).submit(MINE), NoAnswer)


def test_another_server_is_not_taken_for_a_dashboard():
    with answering(200, b"{}") as (address, _):
        assert "is it Ray's dashboard?" in RayJobs(address).version().words
        assert "is it Ray's dashboard?" in RayJobs(address).look("x").words
    with answering(404, b"Not Found") as (address, _):
        # No job of Ray's is unknown there: nothing is.
        assert isinstance(RayJobs(address).look("x"), Refused)


def test_silence_is_said_and_is_no_answer():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert "Connection refused" in RayJobs(address).version().words
        taken.listen()
        silent = RayJobs(address, timeout_s=0.2).look("x")
        assert silent == NoAnswer(f"{address} has not answered within 0.2 s")


@pytest.fixture(scope="module")
def changing():
    """Yield a client, and the answer that it gets to everything."""
    answer = Answer(200, b"")
    with serving(answer) as (address, _):
        yield RayJobs(address), answer


@given(st.binary(max_size=200), st.sampled_from([200, 204, 302, 400, 404, 418, 500]))
def test_no_answer_breaks_the_client(changing, body, status):
    jobs, answer = changing
    answer.status, answer.body = status, b"" if status == 204 else body
    assert isinstance(jobs.version(), (Refused, NoAnswer))
    jobs.look("x")
    jobs.submit(MINE)
    jobs.stop("x")


@pytest.mark.parametrize(
    ("variables", "named", "address"),
    [
        ({}, "", "http://127.0.0.1:8265"),
        ({"RAY_ADDRESS": "10.0.0.1:6379"}, "", "http://127.0.0.1:8265"),
        ({"RAY_ADDRESS": "http://head:8265/"}, "", "http://head:8265"),
        ({"RAY_API_SERVER_ADDRESS": "https://a", "RAY_ADDRESS": "http://b"}, "", "https://a"),
        ({"RAY_API_SERVER_ADDRESS": "https://a"}, "http://c:1", "http://c:1"),
    ],
)
def test_the_dashboard_is_where_ray_itself_would_look(variables, named, address):
    assert dashboard_address(variables, named) == address


@pytest.mark.parametrize("named", ["head:8265", "ftp://x", "http://", "http://x:99999999", "http"])
def test_what_is_no_url_is_refused(named):
    with pytest.raises(RequestError, match="not of the form http://HOST:PORT"):
        dashboard_address({}, named)


def test_a_password_in_an_address_is_in_no_message():
    with pytest.raises(RequestError) as caught:
        dashboard_address({"RAY_API_SERVER_ADDRESS": "http://me:hunter2@head"})
    assert "hunter2" not in f"{caught.value}{caught.value.hint}"


def test_tokens_are_read_in_rays_own_order(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    named = tmp_path / "named"
    assert read_token({}) is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text("of-home\n")
    assert read_token({}) == "of-home"
    named.write_text("of-file")
    path = {"RAY_AUTH_TOKEN_PATH": str(named)}
    assert read_token(path) == "of-file"
    assert read_token(path | {"RAY_AUTH_TOKEN": "own"}) == "own"
    named.write_bytes(b"\xff")
    with pytest.raises(RequestError, match="the token for Ray cannot be read: is not UTF-8"):
        read_token(path)
    with pytest.raises(RequestError, match="No such file"):
        read_token({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "none")})
