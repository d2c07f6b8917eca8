"""Requests are guarded, and each answer keeps other sites away from it."""

from __future__ import annotations

import os
import re

import pytest
from starlette.testclient import TestClient

from tarmac.server import AccessGuard
from tarmac.server.app import Application
from tarmac.server.guarding import Guarded
from tarmac.server.streams import Streams

HERE = "http://127.0.0.1:8080"


@pytest.fixture
def guard():
    return AccessGuard.make(8080)


@pytest.fixture
def open_client(site, guard):
    """Return a function that gives a client of the site, of some user."""

    def open_it(owner: int | None = None, **headers: str) -> TestClient:
        application = Guarded(Application(site, Streams(site)), guard, lambda *_: owner)
        return TestClient(application, base_url=HERE, headers=headers, follow_redirects=False)

    return open_it


@pytest.fixture
def known(open_client, guard):
    return open_client(Authorization=f"Bearer {guard.token}")


def test_without_the_token_there_is_no_page_at_any_address(open_client, training):
    training("a")
    for path in ("/", "/jobs", "/gpus", "/runs/a/", "/runs/a", "/runs/a/log", "/compare", "/x"):
        answer = open_client().get(path)
        assert answer.status_code == 403
        assert "digits" not in answer.text
        assert open_client().get(f"/events{path}").status_code == 403


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address(open_client, guard, training):
    training("a")
    client = open_client()
    answer = client.get(f"/runs/a/?x=1&y=&token={guard.token}")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert guard.token not in answer.text + cookie
    (target,) = re.findall(r'content="0;url=([^"]*)"', answer.text)
    assert target == "/runs/a/?x=1&amp;y="
    assert client.get(target).status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/", '/"><script>', "/\\evil.example", "/%22%3E"])
def test_the_token_leads_to_no_other_site_and_into_no_script(open_client, guard, path):
    answer = open_client().get(f"{HERE}{path}?token={guard.token}")
    (target,) = re.findall(r'content="0;url=([^"]*)"', answer.text)
    assert re.match(r"/[^/\\]|/$", target), target
    assert "<script" not in answer.text


def test_a_wrong_token_gets_no_cookie(open_client):
    answer = open_client().get("/?token=wrong")
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "169.254.169.254", ""])
def test_a_name_that_was_made_to_point_here_sees_nothing(known, guard, host):
    for query in ("", f"?token={guard.token}"):
        answer = known.get(f"/{query}", headers={"host": host})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_a_page_of_another_site_sees_nothing(known):
    assert known.get("/", headers={"origin": "http://evil.example"}).status_code == 403
    assert known.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert "access-control-allow-origin" not in known.get("/").headers


def test_another_user_sees_nothing_whatever_they_know(open_client, guard, training):
    training("a")
    other = open_client(os.geteuid() + 1, Authorization=f"Bearer {guard.token}")
    for address in ("/", f"/?token={guard.token}", "/runs/a/", "/events/"):
        answer = other.get(address)
        assert answer.status_code == 403
        assert "belongs to another user" in answer.text
        assert "set-cookie" not in answer.headers
    own = open_client(os.geteuid(), Authorization=f"Bearer {guard.token}")
    assert own.get("/").status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_pages_are_only_read(known, method):
    assert known.request(method, "/").status_code == 405


@pytest.mark.parametrize("path", ["/", "/nothing", "/?token=wrong", "/runs/a"])
def test_every_answer_is_for_this_browser_alone(known, training, path):
    training("a")
    headers = known.get(path).headers
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_what_is_not_there_and_what_cannot_be_made_is_told(known, training, drawing):
    training("a")
    answer = known.get("/runs/none/")
    assert answer.status_code == 404
    assert "there is nothing at /runs/none/" in answer.text
    drawing.error = ValueError("<b>broken</b>")
    answer = known.get("/runs/a/")
    assert answer.status_code == 500
    assert "ValueError: &lt;b&gt;broken" in answer.text


def test_a_runs_address_ends_with_a_slash_which_links_in_its_page_need(known, training):
    training("a b")
    answer = known.get("/runs/a%20b")
    assert answer.status_code in (301, 302, 307, 308)
    assert answer.headers["location"] == "/runs/a%20b/"
    assert known.get("/runs//evil.example").headers["location"] == "/runs//evil.example/"


def test_a_page_names_the_stream_of_its_changes_without_the_token(known, guard, training):
    training("a")
    text = known.get("/runs/a/?x=%22%3E").text
    (events,) = re.findall(r'data-events="([^"]*)"', text)
    assert events.startswith("/events/runs/a/?x=%22%3E&amp;version=")
    assert guard.token not in text
    assert guard.cookie not in text


def test_bytes_that_are_no_text_are_answered(known):
    for path in (
        "/%FF",
        "/runs/%FF%00/",
        "/?q=%FF",
        "/?q=\udcff".encode("utf-8", "surrogateescape"),
    ):
        text = path if isinstance(path, str) else path.decode("latin-1")
        assert known.get(text).status_code in (200, 404)


def test_a_page_that_is_not_there_leads_back_to_all_runs(known):
    answer = known.get("/runs/gone/")
    assert answer.status_code == 404
    assert '<a href="/">All runs</a>' in answer.text


def test_a_served_page_does_not_say_that_it_needs_no_network(known):
    assert "needs no network" not in known.get("/").text
