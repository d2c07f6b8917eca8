"""Requests without the token, for another name, or from another site are refused."""

from __future__ import annotations

import pytest

from tarmac.server import AccessGuard

HERE = {"host": "127.0.0.1:8080"}


@pytest.fixture
def guard():
    return AccessGuard.make(8080)


def known(guard, **headers):
    """Return the headers of a browser that was let in."""
    return HERE | {"cookie": f"other=1; {guard.cookie_name}={guard.cookie}"} | headers


def test_the_token_lets_in_and_its_cookie_lets_pass(guard):
    assert guard.judge(HERE, guard.token).kind == "enter"
    assert guard.judge(known(guard)).kind == "pass"
    assert guard.judge(HERE | {"authorization": f"Bearer {guard.token}"}).kind == "pass"


@pytest.mark.parametrize("other", ['state={"a": 1}', "x=[1]", "no-value", "a b=c", 'q="', "é=é"])
def test_cookies_of_other_servers_on_this_machine_keep_nobody_out(guard, other):
    own = f"{guard.cookie_name}={guard.cookie}"
    assert guard.judge(HERE | {"cookie": f"{other}; {own}"}).kind == "pass"
    assert guard.judge(HERE | {"cookie": f"{own}; {other}"}).kind == "pass"


def test_each_server_has_a_token_of_its_own():
    first, second = AccessGuard.make(8080), AccessGuard.make(8080)
    assert first.token != second.token
    assert second.judge(known(first)).kind == "refuse"
    assert len(first.token) >= 40


def test_neither_the_token_nor_the_cookie_tells_the_other(guard):
    assert guard.judge(HERE, guard.cookie).kind == "refuse"
    assert guard.judge(HERE | {"authorization": f"Bearer {guard.cookie}"}).kind == "refuse"
    assert guard.judge(HERE | {"cookie": f"{guard.cookie_name}={guard.token}"}).kind == "refuse"


def test_the_token_is_in_no_text(guard):
    assert guard.token not in repr(guard)
    for verdict in (guard.judge(HERE), guard.judge(HERE, "wrong"), guard.judge({}, guard.token)):
        assert guard.token not in repr(verdict)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"cookie": ""},
        {"cookie": "tarmac-8080="},
        {"cookie": "tarmac-8080=wrong"},
        {"cookie": "\xff\x00;;=;tarmac-8080"},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "Bearer \xff"},
        {"authorization": "Basic Og=="},
    ],
)
def test_without_either_nobody_passes(guard, headers):
    assert guard.judge(HERE | headers).kind == "refuse"


@pytest.mark.parametrize("token", ["", "wrong", "\ud800", "é", "None"])
def test_a_wrong_token_is_refused_even_with_the_cookie(guard, token):
    assert guard.judge(known(guard), token).kind == "refuse"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "localhost:9000", "127.0.0.1"],
)
def test_this_machine_goes_by_several_names_and_by_any_port_that_is_forwarded(guard, host):
    assert guard.judge(known(guard, host=host)).kind == "pass"


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example@127.0.0.1",
        "127.0.0.1@evil.example",
        "127.0.0.1/evil.example",
        "127.0.0.1,evil.example",
        "192.168.0.7:8080",
        "0.0.0.0:8080",
        "127.0.0.1:port",
        "[::1",
        "2130706433",
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused_whatever_it_knows(guard, host):
    assert guard.judge(known(guard, host=host)).kind == "refuse"
    assert guard.judge({"host": host}, guard.token).kind == "refuse"


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "http://localhost:8080",
        "https://127.0.0.1:8080",
        "",
        "http://",
    ],
)
def test_a_page_of_another_site_is_refused_with_the_cookie_that_it_makes_the_browser_send(
    guard, origin
):
    assert guard.judge(known(guard, origin=origin)).kind == "refuse"
    assert guard.judge(known(guard, origin="http://127.0.0.1:8080")).kind == "pass"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("mode", "destination"),
    [("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("no-cors", "script")],
)
def test_another_site_gets_no_page_into_its_own(guard, site, mode, destination):
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": destination}
    assert guard.judge(known(guard, **headers)).kind == "refuse"


def test_a_link_of_another_site_may_be_followed(guard):
    headers = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    assert guard.judge(HERE | headers, guard.token).kind == "enter"
    assert guard.judge(HERE | headers).kind == "refuse"


def test_what_a_stranger_sent_is_shown_short_and_harmless(guard):
    reason = guard.judge({"host": "evil\n\x1b[31m" + "x" * 1000}).reason
    assert reason.isprintable()
    assert len(reason) < 200
