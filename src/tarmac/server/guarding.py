"""The guard before all pages, and the headers that keep other sites out."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from starlette.responses import HTMLResponse, PlainTextResponse, Response

from tarmac.machine import owner_of_peer
from tarmac.server.access import AccessGuard

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_TOKEN = "token"  # noqa: S105 - its name in an address

# Each page adds its own rules for scripts, because only the page knows its scripts.
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'; object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guarded:
    """An application that receives only requests that the guard accepts.

    Args:
        application: Application to protect. It receives only the requests that pass.
        guard: Guard that accepts or refuses each request.
        owner: Returns the user ID of a connection's client, from the addresses of both ends. None
            if unknown: then only the token decides.
    """

    def __init__(
        self,
        application: ASGIApp,
        guard: AccessGuard,
        owner: Callable[[tuple[str, int], tuple[str, int]], int | None] = owner_of_peer,
    ) -> None:
        self._application = application
        self._guard = guard
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the application."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(key.encode(), value.encode()) for key, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        answer = self._answer(scope) or self._application
        await answer(scope, receive, send_guarded)

    def _answer(self, scope: Scope) -> Response | None:
        """Return the guard's answer to a request; None if the request passes."""
        if self._is_of_another_user(scope):
            return _refusal("this page belongs to another user; see your own: tarmac serve")
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("error: these pages are read-only\n", 405)
        query = parse_qsl(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
        tokens = [value for key, value in query if key == _TOKEN]
        verdict = self._guard.judge(_headers(scope), tokens[0] if tokens else None)
        if verdict.kind == "refuse":
            return _refusal(f"{verdict.reason}; open the address that tarmac serve has printed")
        if verdict.kind == "enter":
            return self._entrance(scope, [(key, value) for key, value in query if key != _TOKEN])
        return None

    def _is_of_another_user(self, scope: Scope) -> bool:
        if scope["client"] is None or scope["server"] is None or scope["server"][1] is None:
            # The client used a socket file, which only its owner can open.
            return False
        owner = self._owner(tuple(scope["client"]), tuple(scope["server"]))
        return owner is not None and owner != os.geteuid()

    def _entrance(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """Set the cookie, and lead to the same page without the token in its address.

        The answer is a page, not a redirect: after a link from another site, a browser does not
        send the cookie to the redirect's target.
        """
        # An address that begins with two slashes or backslashes is one of another site.
        path = "/" + scope["raw_path"].decode("ascii", "replace").lstrip("/\\")
        target = f"{path}?{urlencode(query)}" if query else path
        response = HTMLResponse(
            "<!doctype html><title>Tarmac</title>"
            f'<meta http-equiv="refresh" content="0;url={html.escape(target)}">'
            f'<a href="{html.escape(target)}">Continue</a>'
        )
        response.set_cookie(
            self._guard.cookie_name, self._guard.cookie, httponly=True, samesite="strict"
        )
        return response


def _refusal(reason: str) -> Response:
    return PlainTextResponse(f"error: {reason}\n", 403)


def _headers(scope: Scope) -> dict[str, str]:
    headers: dict[str, str] = {}
    for key, value in scope["headers"]:
        name, text = key.decode("latin-1"), value.decode("latin-1")
        headers[name] = f"{headers[name]},{text}" if name in headers else text
    return headers
