"""``tarmac serve``: all pages, for this user on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import socket
from collections.abc import Callable
from pathlib import Path

from tarmac.distribution import require
from tarmac.monitor import LocalFeed, WatchOptions
from tarmac.pages import page_of
from tarmac.runs import default_output
from tarmac.server.access import AccessGuard
from tarmac.server.listing import RunLister
from tarmac.server.looks import Looks
from tarmac.server.site import Site


@dataclasses.dataclass(frozen=True)
class Serving:
    """The address of the served pages.

    Attributes:
        url: URL to open, with the token; only the user may see it.
        port: TCP port on the loopback interface. None for a socket file.
        socket: Socket file to listen on. None for a port.
    """

    url: str = dataclasses.field(repr=False)
    port: int | None
    socket: Path | None


def serve(
    output: Path | None = None,
    *,
    port: int = 0,
    socket: Path | None = None,
    ready: Callable[[Serving], None],
) -> None:
    """Serve the pages of all runs until Ctrl-C or SIGTERM.

    Args:
        output: Directory of the runs. Default: `tarmac.runs.default_output`.
        port: TCP port on the loopback interface. Default 0: any free port.
        socket: Socket file to listen on instead of a port. Default: none.
        ready: Called with the address once pages are served.

    Raises:
        RequestError: A package is missing, or the port or socket file is not available.
    """
    require("starlette", "tarmac serve")
    require("uvicorn", "tarmac serve")
    # Packages of an extra.
    from tarmac.server.listening import listen_on_file, listen_on_port  # noqa: PLC0415

    with contextlib.ExitStack() as opened:
        if socket is not None:
            listener = opened.enter_context(listen_on_file(socket))
            where = Serving("", None, socket)
        else:
            listener = opened.enter_context(listen_on_port(port))
            where = Serving("", listener.getsockname()[1], None)
        guard = AccessGuard.make(where.port)
        address = "localhost" if where.port is None else f"127.0.0.1:{where.port}"
        where = dataclasses.replace(where, url=f"http://{address}/?token={guard.token}")
        output = output or default_output()
        looks = Looks(lambda: LocalFeed(WatchOptions(output=output)))
        opened.callback(looks.close)
        site = Site(RunLister(output), page_of, looks.look)
        asyncio.run(_serve(site, guard, listener, functools.partial(ready, where)))


async def _serve(
    site: Site, guard: AccessGuard, listener: socket.socket, ready: Callable[[], None]
) -> None:
    from tarmac.server.app import Application  # noqa: PLC0415 - the extra's packages
    from tarmac.server.guarding import Guarded  # noqa: PLC0415
    from tarmac.server.listening import serve_until_told  # noqa: PLC0415
    from tarmac.server.streams import Streams  # noqa: PLC0415

    streams = Streams(site)
    application = Guarded(Application(site, streams), guard)
    await serve_until_told(application, listener, ready=ready, end=streams.close)
