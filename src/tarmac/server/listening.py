"""A server that listens on this machine alone, until a signal stops it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_LOOPBACK = "127.0.0.1"

# Seconds for unfinished requests when the server stops.
_GRACE_S = 1


def listen_on_port(port: int) -> socket.socket:
    """Return a socket that only processes of this machine can reach.

    Args:
        port: TCP port; 0 for any free port.

    Raises:
        RequestError: The port is taken or invalid.
    """
    listener = socket.socket(socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_LOOPBACK, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise RequestError(
            f"cannot listen on {_LOOPBACK}:{port}: {reason}",
            hint="Choose another --port, or leave it out for a free one.",
        ) from error
    return listener


@contextlib.contextmanager
def listen_on_file(path: Path) -> Iterator[socket.socket]:
    """Yield a socket file that only its owner can open; remove it at the end.

    Raises:
        RequestError: The file cannot be created, or another server listens on it.
    """
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(path.lstat().st_mode) and not _is_answered(path):
            # A killed server left the file behind.
            path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        reason = str(error) if error.errno is None else os.strerror(error.errno)
        raise RequestError(
            f"cannot listen on {path}: {reason}", hint="Name another --socket."
        ) from error
    finally:
        os.umask(before)
    try:
        listener.listen()
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        return asking.connect_ex(str(path)) == 0


async def serve_until_told(
    application: ASGIApp,
    listener: socket.socket,
    *,
    ready: Callable[[], None],
    end: Callable[[], None],
) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        application: ASGI application that answers the requests.
        listener: Socket to listen on. Closed at the end.
        ready: Called once the server answers.
        end: Called on a stop signal, to end streams that would continue by themselves.
    """
    config = uvicorn.Config(
        application,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        # Nothing is logged: addresses may contain the token.
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    await _Server(config, ready, end).serve(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that reports when it answers, and for which a stop signal is no failure."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], end: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._end = end

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving; uvicorn's own code would raise them again afterwards."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server, then call ``ready``."""
        await super().startup(sockets=sockets)
        self._ready()

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._end()
