"""Access control for the pages: a token, and checks against other sites.

The guard checks three things of a request. The token, or the cookie in exchange for it, keeps out
other processes and people. The host name keeps out sites whose name was made to point to this
machine (DNS rebinding). The origin keeps out pages of other sites that the same browser has open.

Pure: the module does not listen, read or write.

Example:
    >>> guard = AccessGuard(token="secret", cookie_name="tarmac-8080")
    >>> guard.judge({"host": "127.0.0.1:8080"}, query_token="secret").kind
    'enter'
    >>> guard.judge({"host": "evil.example", "authorization": "Bearer secret"}).reason
    'the request is for evil.example, not for this machine'
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

# Names of this machine for itself. Name servers are not asked for them (RFC 6761, 6.3).
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

# Sec-Fetch-Site of a request by the user, or by a page of this server.
_OWN_SITES = ("none", "same-origin")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The decision about a request.

    Attributes:
        kind: ``pass``; ``enter``: the token is right, set the cookie and remove the token from the
            address; or ``refuse``.
        reason: Reason of a refusal, without any secret.
    """

    kind: Literal["pass", "enter", "refuse"]
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class AccessGuard:
    """A guard that judges requests by their headers.

    Attributes:
        token: Secret of the address that the user opens. It appears in no other text.
        cookie_name: Name of this server's cookie. Browsers send cookies to all ports of a machine.
    """

    token: str = dataclasses.field(repr=False)
    cookie_name: str

    @classmethod
    def make(cls, port: int | None) -> AccessGuard:
        """Return a guard with a new token.

        Args:
            port: TCP port of the server; None for a socket file.
        """
        name = "tarmac" if port is None else f"tarmac-{port}"
        return cls(secrets.token_urlsafe(32), name)

    @property
    def cookie(self) -> str:
        """The cookie's value, which does not reveal the token."""
        return hmac.new(self.token.encode(), b"cookie", hashlib.sha256).hexdigest()

    def judge(self, headers: Mapping[str, str], query_token: str | None = None) -> Verdict:
        """Judge a request.

        Args:
            headers: Headers with names in lower case. A comma joins the values of a repeated one.
            query_token: Token of the address; None without a token.
        """
        foreign = _foreign(headers)
        if foreign:
            return Verdict("refuse", foreign)
        if query_token is not None:
            if _are_same(query_token, self.token):
                return Verdict("enter")
            return Verdict("refuse", "the token is not the one that was printed")
        if self._is_known(headers):
            return Verdict("pass")
        return Verdict("refuse", "the address has no token, and this browser was not here before")

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _are_same(token, self.token):
            return True
        # Servers on other ports set cookies of any form, which prove nothing here.
        pairs = (pair.partition("=") for pair in headers.get("cookie", "").split(";"))
        return any(
            _are_same(value.strip(), self.cookie)
            for name, _, value in pairs
            if name.strip() == self.cookie_name
        )


def _foreign(headers: Mapping[str, str]) -> str:
    """Return the reason why a request belongs to another site; empty if it does not."""
    host = headers.get("host", "")
    if _name_of(host) not in _LOCAL_NAMES:
        return f"the request is for {_shown(host)}, not for this machine"
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return f"the request comes from {_shown(origin)}, another site"
    # A link in a chat may lead here, but other sites may not embed or fetch a page.
    is_followed_link = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )
    if headers.get("sec-fetch-site", "none") not in _OWN_SITES and not is_followed_link:
        return "the request comes from another site"
    return ""


def _are_same(actual: str, expected: str) -> bool:
    """Compare secrets in a time that does not depend on the first difference."""
    return hmac.compare_digest(actual.encode("utf-8", "replace"), expected.encode())


def _name_of(host: str) -> str:
    """Return the name in a Host header, without its port; empty for an invalid header."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises if it is not a number
    except ValueError:
        return ""
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return ""
    return parts.hostname or ""


def _shown(text: str) -> str:
    """Return a stranger's text for a message: at most 80 characters, all printable."""
    return "".join(c if c.isprintable() else "?" for c in text[:80]) or "nobody"
