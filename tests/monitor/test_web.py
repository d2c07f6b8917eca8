"""The screen in a browser: who gets in, and who does not."""

import re
import socket
import subprocess
import sys

import httpx
import pytest

from listening import listening_at

pytest.importorskip("textual_serve", reason="needs pip install 'tarmac-gpu[watch]'")

_SERVE = "from tarmac.monitor import serve_in_browser; serve_in_browser(['--interval', '1'])"


@pytest.fixture(scope="module")
def address():
    """Serve on any port, and return where."""
    process = subprocess.Popen([sys.executable, "-c", _SERVE], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        yield re.search(r"http://127\.0\.0\.1:\d+/\S+/", line).group()
    finally:
        process.terminate()
        process.communicate(timeout=200)


def get(address, **options):
    # However busy the machine is, and whatever proxy its user has.
    return httpx.get(address, timeout=200, trust_env=False, **options)


def root_of(address):
    return address.split("/", 3)[:3]


def test_who_has_the_token_gets_the_page(address):
    answer = get(address)
    assert answer.status_code == 200
    assert "tarmac top" in answer.text
    assert f"{address}static/js/textual.js" in answer.text
    assert get(f"{address}static/js/textual.js").status_code == 200


def test_the_page_may_load_nothing_from_elsewhere(address):
    headers = get(address).headers
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["", "ws", "static/js/textual.js", "wrong/", "wrong/ws"])
def test_who_has_no_token_finds_nothing(address, path):
    root = "/".join(root_of(address))
    assert get(f"{root}/{path}").status_code == 404


def test_a_name_that_was_made_to_lead_here_is_refused(address):
    assert get(address, headers={"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://evil.example:1"])
def test_a_page_of_another_site_is_refused(address, origin):
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Origin": origin,
    }
    assert get(f"{address}ws", headers=upgrade).status_code == 403


@pytest.mark.parametrize("path", ["", "ws", "static/js/textual.js", "nothing"])
def test_another_user_is_refused_who_has_the_token(address, path, second_user):
    host, _, place = address.removeprefix("http://").partition("/")

    def ask():
        with socket.socket() as connection:
            connection.connect(("127.0.0.1", int(host.rpartition(":")[2])))
            request = f"GET /{place}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            return connection.makefile(encoding="utf-8").read()

    answer = second_user(ask)
    assert answer.startswith("HTTP/1.1 403 ")
    assert "this page belongs to another user" in answer


def test_each_start_has_a_token_of_its_own(address):
    process = subprocess.Popen([sys.executable, "-c", _SERVE], stdout=subprocess.PIPE, text=True)
    try:
        other = process.stdout.readline()
    finally:
        process.terminate()
        process.communicate(timeout=200)
    assert address.split("/")[3] not in other
    assert len(address.split("/")[3]) >= 43


def test_a_port_that_is_taken_is_named(address):
    port = int(address.split(":")[2].split("/")[0])
    code = f"from tarmac.monitor import serve_in_browser; serve_in_browser([], port={port})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"port {port} of 127.0.0.1 cannot be listened on" in run.stderr


def test_it_listens_on_this_machine_alone(address):
    port = int(address.split(":")[2].split("/")[0])
    assert listening_at(port) == {f"0100007F:{port:04X}"}
