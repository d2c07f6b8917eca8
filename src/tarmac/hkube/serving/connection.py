"""The websocket to HKube's worker, made again whenever it drops."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import TYPE_CHECKING

from websockets.exceptions import ConnectionClosed, InvalidURI, WebSocketException
from websockets.sync.client import connect
from websockets.uri import parse_uri

from tarmac.errors import RequestError
from tarmac.files import without_password
from tarmac.hkube.protocol import Link, Message, ProtocolError, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.sync.client import ClientConnection

    from tarmac.hkube.protocol import Encoding

# HKube's chart gives its worker as much (WORKER_SOCKET_MAX_PAYLOAD_BYTES, chart 2.0.20).
_MAX_BYTES = 10**9

_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 2.0
_OPENING_S = 10.0
_CLOSING_S = 1.0

# HKube's debug node takes one algorithm, and tells the next ones who it is (core/algorithm-debug).
_HELD = "alreadyConnectedError"


class _HeldByAnotherError(Exception):
    """Another algorithm has the worker already."""


@dataclasses.dataclass(frozen=True)
class Opened:
    """The websocket is there, for the first time or again."""


@dataclasses.dataclass(frozen=True)
class PassedOver:
    """A frame came that is no message, and why it is none."""

    reason: str


@dataclasses.dataclass(frozen=True)
class GivenUp:
    """No worker was there for too long, or none takes this algorithm.

    Attributes:
        reason: What was seen of it last.
        holder: The host of the algorithm that has it already; None where nobody has.
    """

    reason: str
    holder: str | None = None


class Connection:
    """Reads what the worker sends in a thread of its own, and sends to it.

    Args:
        url: URL of the worker's websocket, such as ``ws://127.0.0.1:3000``.
        encoding: Encoding of the frames: ``json``, ``msgpack`` or ``bson``.
        limit_s: Seconds to retry without a worker before giving up.
        take: Is given `Opened`, each `Message`, `PassedOver`, and `GivenUp` at last; in the thread.
            What it is given after `close` has no meaning.

    Raises:
        RequestError: The URL is none of a websocket.
    """

    def __init__(
        self,
        url: str,
        encoding: Encoding,
        *,
        limit_s: float,
        take: Callable[[Opened | Message | PassedOver | GivenUp], None],
    ) -> None:
        try:
            parse_uri(url)
        except (InvalidURI, ValueError) as error:
            raise RequestError(
                f"{without_password(url)} is no URL of a websocket",
                hint="Set WORKER_SOCKET_URL, such as ws://127.0.0.1:3000",
            ) from error
        self._url = f"{url}{Link(encoding=encoding).query}"
        self._encoding = encoding
        self._limit_s = limit_s
        self._take = take
        self._socket: ClientConnection | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._work, name="tarmac-worker-socket", daemon=True).start()

    def send(self, message: Message) -> bool:
        """Send a message; return whether there was a worker to take it."""
        socket = self._socket
        if socket is None:
            return False
        try:
            socket.send(encode(message, self._encoding))
        except (ConnectionClosed, OSError):
            return False
        return True

    def close(self) -> None:
        """Close the websocket, for good."""
        self._closed.set()
        socket = self._socket
        if socket is not None:
            socket.close()

    def _work(self) -> None:
        """Keep the websocket up until it is closed or given up."""
        try:
            self._take(GivenUp(self._keep_up()))
        except _HeldByAnotherError as held:
            self._take(GivenUp(_HELD, holder=str(held)))
        except Exception as error:
            # Nobody else would notice that nothing is read any more.
            self._take(GivenUp(f"{type(error).__name__}: {error}"))

    def _keep_up(self) -> str:
        """Return why there is no websocket any more."""
        last, delay_s, reason = time.monotonic(), _FIRST_DELAY_S, ""
        while not self._closed.is_set():
            try:
                with connect(
                    self._url,
                    compression=None,
                    max_size=_MAX_BYTES,
                    open_timeout=_OPENING_S,
                    close_timeout=_CLOSING_S,
                    # HKube's own clients send none, and a worker of its need not answer them.
                    ping_interval=None,
                    # The worker is in the same pod.
                    proxy=None,
                ) as socket:
                    was_up = self._read(socket)
                reason = "it closed the connection"
                if was_up:
                    last, delay_s = time.monotonic(), _FIRST_DELAY_S
            except (OSError, WebSocketException) as error:
                reason = str(error) or type(error).__name__
            if time.monotonic() - last > self._limit_s:
                break
            self._closed.wait(delay_s)
            delay_s = min(2 * delay_s, _LONGEST_DELAY_S)
        return reason

    def _read(self, socket: ClientConnection) -> bool:
        """Read to the connection's end; return whether it was one, not only a door that shuts.

        A server that says something and closes takes nobody: it is not asked again and again at
        once, and not for ever.
        """
        opened = time.monotonic()
        self._socket = socket
        if self._closed.is_set():
            # `close` saw no socket.
            return False
        self._take(Opened())
        try:
            for frame in socket:
                try:
                    message = decode(frame, self._encoding)
                except ProtocolError as error:
                    self._take(PassedOver(error.message))
                    continue
                if message.command == _HELD:
                    named = message.data.get("hostname") if isinstance(message.data, dict) else None
                    raise _HeldByAnotherError(str(named or "another host"))
                self._take(message)
        except ConnectionClosed:
            # As one that is closed in order: it is made again.
            pass
        finally:
            self._socket = None
        return time.monotonic() - opened > _LONGEST_DELAY_S
