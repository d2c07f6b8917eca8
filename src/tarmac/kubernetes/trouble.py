"""Why a server gives no answer, in words: what, where, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import httpx

if TYPE_CHECKING:
    from tarmac.kubernetes.kubeconfig import Place


class Trouble(NamedTuple):
    """Why there is no answer.

    Attributes:
        words: To stand behind the server's title.
        is_passing: Whether asking again may help.
    """

    words: str
    is_passing: bool


class _Row(NamedTuple):
    """A trouble by its exception and OpenSSL's or the resolver's own words."""

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
        "does not accept the client certificate of {login} ({text}); fetch the kubeconfig anew",
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
    _Row(httpx.ProxyError, "", "is not reached by its proxy: {text}", is_passing=True),
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
    """Return words for an error of a request.

    Raises:
        Exception: The error itself, where it is not of the network.
    """
    text = str(error) or type(error).__name__
    for row in _ROWS:
        if isinstance(error, row.kind) and row.part in text:
            why = text.partition("verify failed: ")[2].partition(" (_ssl")[0] or text
            words = row.words.format(text=text, why=why, file=place.file, login=login_words(place))
            return Trouble(words, row.is_passing)
    raise error


def login_words(place: Place) -> str:
    """Return who asks, for messages."""
    login = place.login
    return f"user {login.name!r} of {login.file}" if login else "nobody in particular"
