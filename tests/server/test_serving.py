"""`tarmac serve` as a process: who reaches it, what it prints, and how it ends."""

from __future__ import annotations

import contextlib
import html
import re
import signal
import socket
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from serving_process import ask, request

import tarmac
from listening import listening_at
from tarmac.cli.commands.serve import command
from tarmac.errors import RequestError
from tarmac.jobs import JobFailed

pytest.importorskip("uvicorn", reason="needs pip install 'tarmac-gpu[watch]'")


def status(answer: str) -> str:
    return answer.split(" ", 2)[1]


def test_nobody_gets_in_without_the_token(served, training):
    training("a")
    server = served()
    assert status(server.ask()) == "403"
    assert status(server.ask("/?token=wrong")) == "403"
    assert status(server.ask("/events/")) == "403"
    assert status(server.ask(token="wrong")) == "403"
    assert status(server.ask(token=server.token)) == "200"


def test_dns_rebinding_gets_nothing_even_with_the_token(served):
    server = served()
    answer = server.ask(f"/?token={server.token}", host=f"evil.example:{server.port}")
    assert status(answer) == "403"
    assert "set-cookie" not in answer.lower()


def test_another_users_process_gets_nothing_even_with_the_token(served, second_user):
    server = served()

    def attack(family, address):
        with socket.socket(family) as connection:
            connection.settimeout(200)
            connection.connect((address, server.port))
            return ask(connection, "/", token=server.token)

    assert status(server.ask(token=server.token)) == "200"
    ways = [(socket.AF_INET, "127.0.0.1")]
    if socket.has_dualstack_ipv6():
        # Through a socket of IPv6, of which the kernel keeps another list.
        ways.append((socket.AF_INET6, "::ffff:127.0.0.1"))
    for way in ways:
        answer = second_user(lambda way=way: attack(*way))
        assert status(answer) == "403"
        assert "belongs to another user" in answer


def test_it_listens_on_this_machine_alone(served):
    server = served()
    assert server.file is None
    assert listening_at(server.port) == {f"0100007F:{server.port:04X}"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_when_told_to_with_streams_open(served, training, number):
    training("a", status="running")
    server = served()
    connections = [server.connect() for _ in range(3)]
    for connection in connections:
        connection.sendall(request("/events/?version=x", token=server.token))
        assert b"text/event-stream" in connection.recv(65536)
    code, printed = server.end(number)
    assert code == 130
    assert printed == ""
    for connection in connections:
        connection.close()


def test_the_token_is_printed_once_and_never_again(served, training, drawing):
    training("a")
    server = served()
    assert server.printed.count(server.token) == 1
    server.ask(f"/?token={server.token}")
    server.ask(f"/nothing?token={server.token}")
    server.ask(f"/%FF?token={server.token}x")
    with server.connect() as connection:
        connection.sendall(f"GET /?token={server.token} nonsense\r\n\r\n".encode())
        connection.recv(65536)
    _, printed = server.end()
    assert server.token not in printed


def test_no_page_shows_a_secret_that_a_task_has_printed(served, output, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BIRD", "kanarienvogel 7")
    job = tmp_path / "job.yaml"
    job.write_text(
        """
name: canary
secrets: {WORD: {env: BIRD}}
tasks:
  - {name: a, command: [sh, -c, 'echo it is $WORD; curl -x me:pw12@proxy:1 $WORD; exit 3']}
"""
    )
    with pytest.raises(JobFailed):
        tarmac.run(job, output=output)
    server = served()
    left, seen = ["/"], {}
    while left:
        address = left.pop()
        seen[address] = server.ask(address, token=server.token)
        links = {html.unescape(link) for link in re.findall(r'href="(/[^"#]*)', seen[address])}
        left += sorted(links - seen.keys() - {*left})
    assert any("it is (hidden)" in page for address, page in seen.items() if "/log?" in address)
    for address, page in seen.items():
        assert "kanarienvogel" not in page, address
        assert "pw12" not in page, address


def test_requests_that_are_none_disturb_nobody(served):
    server = served()
    for hostile in (b"\0" * 100, b"GET", b"GET / HTTP/9.9\r\n\r\n", b"x" * 100_000 + b"\r\n\r\n"):
        # It may hang up before it has read all.
        with server.connect() as connection, contextlib.suppress(ConnectionError):
            connection.sendall(hostile)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
    assert status(server.ask(token=server.token)) == "200"


def test_a_sockets_file_is_its_owners_alone_and_goes_with_the_server(
    served, open_directory, second_user
):
    path = open_directory / "tarmac.sock"
    server = served("--socket", str(path))
    assert server.file == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def reach(token):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            return ask(connection, "/", token=token)

    with pytest.raises(PermissionError):
        second_user(lambda: reach(server.token))
    assert status(reach(None)) == "403"
    assert status(reach(server.token)) == "200"
    assert server.end()[0] == 130
    assert not path.exists()


def test_a_socket_that_a_killed_server_has_left_is_taken_over_and_a_living_ones_is_not(
    served, tmp_path, output
):
    path = tmp_path / "tarmac.sock"
    server = served("--socket", str(path))
    words = ["--socket", str(path), "--output", str(output)]
    with pytest.raises(RequestError, match=r"cannot listen on .*: Address already in use"):
        CliRunner().invoke(command, words, catch_exceptions=False)
    server.process.kill()
    server.process.wait()
    assert path.exists()
    served("--socket", str(path))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "70000"], "cannot listen on 127.0.0.1:70000"),
        (["--port", "-1"], "cannot listen on 127.0.0.1:-1"),
        (["--socket", "/nowhere/at/all"], "cannot listen on /nowhere/at/all: No such file"),
        (["--socket", "/tmp/" + "x" * 200], "AF_UNIX path too long"),
        (["--socket", "/tmp/x", "--port", "1"], "--port and --socket are both given"),
    ],
)
def test_what_cannot_be_listened_on_is_said(words, message):
    with pytest.raises(RequestError, match=message):
        CliRunner().invoke(command, words, catch_exceptions=False)


def test_a_port_that_is_taken_is_said(served, output):
    server = served()
    words = ["--port", str(server.port), "--output", str(output)]
    with pytest.raises(RequestError, match=f"{server.port}: Address already in use"):
        CliRunner().invoke(command, words, catch_exceptions=False)


def test_the_address_for_people_is_one_line(monkeypatch):
    from tarmac import server

    def serve(output, *, port, socket, ready):
        ready(server.Serving("http://127.0.0.1:1/?token=x", None if socket else 1, socket))

    monkeypatch.setattr(server, "serve", serve)
    printed = CliRunner().invoke(command, [], catch_exceptions=False).output
    assert printed == "http://127.0.0.1:1/?token=x (Ctrl-C ends it)\n"
    printed = CliRunner().invoke(command, ["--socket", "s"], catch_exceptions=False).output
    assert "ssh -L" in printed.splitlines()[0]
    assert str(Path("s")) in printed
