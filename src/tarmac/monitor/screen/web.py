"""The screen in a browser of this machine, by Textual's own server, behind a token.

The token is part of every address, and is random for each server. The ``Host`` header protects
against DNS rebinding, and ``Origin`` against the pages of other sites.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from aiohttp import web
from textual_serve.server import Server

from tarmac.errors import RequestError
from tarmac.machine import owner_of_peer
from tarmac.processes import python_command

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

_HOST = "127.0.0.1"
# Textual's page loads a font from a remote server by https; its own files use http.
_ELSEWHERE = re.compile(r'<link\b[^>]*\bhref="https://[^>]*>')
# Prevents a request for a missing icon, and sends keys to the screen before a click.
_HEAD = """<link rel="icon" href="data:,">
<script>
new MutationObserver((_, watch) => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys && document.body.classList.contains("-first-byte")) {
    watch.disconnect();
    keys.focus();
  }
}).observe(document, {attributes: true, childList: true, subtree: true});
</script>
"""


class _GuardedServer(Server):
    """Textual's server, with its pages below an address that contains the token."""

    def __init__(self, command: str, port: int, token: str) -> None:
        super().__init__(
            command, _HOST, port, title="tarmac top", public_url=f"http://{_HOST}:{port}"
        )
        self._token = token
        self._names = {f"{_HOST}:{port}", f"localhost:{port}"}

    @property
    def address(self) -> str:
        """The address of the screen, with the token."""
        return f"{self.public_url}/{self._token}/"

    async def _make_app(self) -> web.Application:
        outer = web.Application(middlewares=[self._guard])
        outer.add_subapp(f"/{self._token}/", await super()._make_app())
        return outer

    async def on_startup(self, _: web.Application) -> None:
        """Print the address, in place of the server's own banner."""
        click.echo(f"tarmac top is at {self.address}\nCtrl-C ends it.")

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if _is_of_another_user(request):
            raise web.HTTPForbidden(
                text="this page belongs to another user; see your own: tarmac top --web\n"
            )
        origin = request.headers.get("Origin")
        if request.headers.get("Host") not in self._names or (
            origin is not None and origin.removeprefix("http://") not in self._names
        ):
            raise web.HTTPForbidden(text="this page is only for browsers on this machine\n")
        response = await handler(request)
        if not response.prepared:
            if isinstance(response, web.Response) and response.content_type == "text/html":
                text = _ELSEWHERE.sub("", response.text or "")
                response.text = text.replace("</head>", f"{_HEAD}</head>")
            response.headers.update(_headers(self.port))
        return response


def serve(arguments: Sequence[str], *, port: int) -> None:
    """Serve ``tarmac top ARGUMENTS`` until SIGINT or SIGTERM.

    Raises:
        RequestError: The port is taken.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
        except OSError as error:
            raise RequestError(
                f"port {port} of {_HOST} cannot be listened on: {error.strerror}",
                hint="Choose another port, or leave it out for a free one: tarmac top --web",
            ) from error
        command = shlex.join(python_command("tarmac", "top", *arguments))
        server = _GuardedServer(command, listener.getsockname()[1], secrets.token_urlsafe(32))
        web.run_app(server._make_app(), sock=listener, print=None)


def _is_of_another_user(request: web.Request) -> bool:
    assert request.transport is not None
    peer, own = map(request.transport.get_extra_info, ("peername", "sockname"))
    owner = owner_of_peer(peer, own)
    return owner is not None and owner != os.geteuid()


def _headers(port: int) -> dict[str, str]:
    sources = f"'self' ws://{_HOST}:{port} ws://localhost:{port}"
    return {
        "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data:; "
        f"connect-src {sources}; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
