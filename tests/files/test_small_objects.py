"""Small objects of a store, and what a store says that gives none."""

from __future__ import annotations

import contextlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tarmac.errors import TarmacError
from tarmac.files import get_object, read_object, write_object

pytest.importorskip("obstore", reason="needs pip install 'tarmac-gpu[objects]'")


def test_a_small_object_is_read_and_one_that_is_not_there_is_none(s3):
    write_object("s3://bucket/a.json", b"{}", os.environ)
    assert read_object("s3://bucket/a.json", os.environ) == b"{}"
    assert read_object("s3://bucket/b.json", os.environ) is None


def test_a_bucket_that_is_not_there_says_so(s3, tmp_path):
    with pytest.raises(TarmacError, match="there is no bucket nothing"):
        read_object("s3://nothing/a.json", os.environ)
    with pytest.raises(TarmacError, match="there is no bucket nothing"):
        get_object("s3://nothing/a.json", tmp_path / "a", os.environ)


def test_an_object_that_is_not_there_is_told_in_our_words(s3, tmp_path):
    with pytest.raises(TarmacError) as caught:
        get_object("s3://bucket/none", tmp_path / "a", os.environ)
    assert str(caught.value) == "s3://bucket/none: there is no such object"


@pytest.fixture
def refusing(monkeypatch):
    """Yield a function that starts a server which forbids everything, with a code of S3's."""
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    servers = []

    def start(code):
        class Refusing(BaseHTTPRequestHandler):
            def refuse(self):
                content = f"<Error><Code>{code}</Code></Error>".encode()
                self.send_response(403)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = refuse  # noqa: N815 - as http.server calls them
            do_PUT = refuse  # noqa: N815

            def log_message(self, *_):
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Refusing))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("AccessDenied", contextlib.nullcontext()),
        ("InvalidAccessKeyId", pytest.raises(TarmacError, match="InvalidAccessKeyId")),
    ],
)
def test_wrong_keys_are_told_from_a_store_that_does_not_say_what_is_there(
    refusing, monkeypatch, code, expected
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2hunter2")
    with expected:
        assert read_object("s3://bucket/a", {"AWS_ENDPOINT_URL": refusing(code)}) is None


def test_where_there_are_no_keys_it_says_so(refusing, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", refusing("AccessDenied"))
    with pytest.raises(TarmacError, match="AWS_ACCESS_KEY_ID is not set"):
        read_object("s3://bucket/a", {})
