"""Who may see the pages: who has the token, in a browser that was not led here by another site.

Three things are asked of a request, and each keeps out somebody else. The token or the cookie that
it was exchanged for: processes and people who were not told. The name that the browser believes to
talk to: pages of other sites whose name was made to point to this machine (DNS rebinding). Where
the request comes from: pages of other sites that this browser has open.

Pure: nothing here listens, reads or writes.

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
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

# What this machine calls itself to itself. No name server is asked for them (RFC 6761, 6.3).
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

# What a browser says of where a request comes from: the user, or a page of this very server.
_OWN_SITES = ("none", "same-origin")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is to be done with a request.

    Attributes:
        kind: ``pass``; ``enter``: the token is right, give the cookie and take the token out of the
            address; or ``refuse``.
        reason: Why it is refused, in words without any secret.
    """

    kind: Literal["pass", "enter", "refuse"]
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class AccessGuard:
    """Judges requests by their headers.

    Attributes:
        token: What the address has that is given to the user. It is in no other text.
        cookie_name: Browsers give cookies to all ports of a machine, so each server has its own.
    """

    token: str = dataclasses.field(repr=False)
    cookie_name: str

    @classmethod
    def make(cls, port: int | None) -> AccessGuard:
        """Return a guard with a new token.

        Args:
            port: Where the server listens; None for a socket's file.
        """
        name = "tarmac" if port is None else f"tarmac-{port}"
        return cls(secrets.token_urlsafe(32), name)

    @property
    def cookie(self) -> str:
        """The cookie's value, from which the token cannot be told."""
        return hmac.new(self.token.encode(), b"cookie", hashlib.sha256).hexdigest()

    def judge(self, headers: Mapping[str, str], query_token: str | None = None) -> Verdict:
        """Judge a request.

        Args:
            headers: With their names in lower case; of one that came twice, both with a comma.
            query_token: What the address has as the token, if anything.
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
        # Servers on other ports give this browser cookies of any form, which say nothing here.
        pairs = (pair.partition("=") for pair in headers.get("cookie", "").split(";"))
        return any(
            _are_same(value.strip(), self.cookie)
            for name, _, value in pairs
            if name.strip() == self.cookie_name
        )


def _foreign(headers: Mapping[str, str]) -> str:
    """Return why a request is of another site; empty where it is not."""
    host = headers.get("host", "")
    if _name_of(host) not in _LOCAL_NAMES:
        return f"the request is for {_shown(host)}, not for this machine"
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return f"the request comes from {_shown(origin)}, another site"
    # A link in a chat may lead here, but nothing of another site gets a page into its own.
    is_followed_link = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )
    if headers.get("sec-fetch-site", "none") not in _OWN_SITES and not is_followed_link:
        return "the request comes from another site"
    return ""


def _are_same(given: str, expected: str) -> bool:
    """Compare secrets in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _name_of(host: str) -> str:
    """Return the name in a Host header, without its port; empty where it is none."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError:
        return ""
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return ""
    return parts.hostname or ""


def _shown(text: str) -> str:
    """Return what a stranger has sent, for a message: short, and with nothing that acts."""
    return "".join(c if c.isprintable() else "?" for c in text[:80]) or "nobody"
