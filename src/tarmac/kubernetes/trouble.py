"""Explanations of why a server does not answer, with advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import httpx

if TYPE_CHECKING:
    from tarmac.kubernetes.kubeconfig import Place


class Trouble(NamedTuple):
    """The reason why a server does not answer.

    Attributes:
        words: Explanation that follows the server's title in messages.
        is_passing: Whether a retry may help.
    """

    words: str
    is_passing: bool


class _Row(NamedTuple):
    """An explanation for an exception type and a part of its message."""

    kind: type[Exception]
    part: str
    words: str
    is_passing: bool


_ROWS = (
    _Row(
        httpx.HTTPError,
        "CERTIFICATE_VERIFY_FAILED",
        "shows a certificate that does not match ({why}); check `server`, "
        "`certificate-authority-data` and `tls-server-name` in {file}",
        is_passing=False,
    ),
    _Row(
        httpx.HTTPError,
        "WRONG_VERSION_NUMBER",
        "answers without TLS; is `server` in {file} meant to begin with http://?",
        is_passing=False,
    ),
    _Row(
        httpx.HTTPError,
        "record layer failure",
        "answers without TLS; is `server` in {file} meant to begin with http://?",
        is_passing=False,
    ),
    _Row(
        httpx.HTTPError,
        " alert ",
        "does not accept the client certificate of {login} ({text}); fetch the kubeconfig again",
        is_passing=False,
    ),
    _Row(
        httpx.HTTPError,
        "Name or service not known",
        "is not known by that name; check `server` in {file}",
        is_passing=True,
    ),
    _Row(
        httpx.HTTPError,
        "No address associated",
        "is not known by that name; check `server` in {file}",
        is_passing=True,
    ),
    _Row(httpx.InvalidURL, "", "is no address: {text}", is_passing=False),
    _Row(httpx.UnsupportedProtocol, "", "is no address: {text}", is_passing=False),
    _Row(httpx.ProxyError, "", "cannot be reached through its proxy: {text}", is_passing=True),
    _Row(
        httpx.ConnectTimeout,
        "",
        "does not answer; is the address right, is a VPN or a tunnel needed?",
        is_passing=True,
    ),
    _Row(
        httpx.ConnectError,
        "",
        "cannot be connected to ({text}); is the address right, is the server up?",
        is_passing=True,
    ),
    _Row(httpx.TimeoutException, "", "did not answer in time", is_passing=True),
    _Row(httpx.HTTPError, "", "broke off: {text}", is_passing=True),
    _Row(OSError, "", "broke off: {text}", is_passing=True),
)


def explain_trouble(error: Exception, place: Place) -> Trouble:
    """Return the explanation of a failed request.

    Raises:
        Exception: The error itself, if it is not a network error.
    """
    text = str(error) or type(error).__name__
    for row in _ROWS:
        if isinstance(error, row.kind) and row.part in text:
            why = text.partition("verify failed: ")[2].partition(" (_ssl")[0] or text
            words = row.words.format(text=text, why=why, file=place.file, login=login_words(place))
            return Trouble(words, row.is_passing)
    raise error


def login_words(place: Place) -> str:
    """Return the name of the login for messages."""
    login = place.login
    return f"user {login.name!r} of {login.file}" if login else "nobody in particular"
