"""The websocket to HKube's worker, which reconnects whenever it drops."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable

from websockets.exceptions import ConnectionClosed, InvalidURI, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.uri import parse_uri

from tarmac.errors import RequestError
from tarmac.files import without_password
from tarmac.hkube.protocol import Encoding, Link, Message, ProtocolError, decode, encode

# The limit of HKube's worker (WORKER_SOCKET_MAX_PAYLOAD_BYTES, chart 2.0.20).
_MAX_BYTES = 10**9

_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 2.0
_OPENING_S = 10.0
_CLOSING_S = 1.0

# HKube's debug node takes one algorithm, and names its host to others (core/algorithm-debug).
_HELD = "alreadyConnectedError"


class _HeldByAnotherError(Exception):
    """Another algorithm is already connected to the worker."""


@dataclasses.dataclass(frozen=True)
class Opened:
    """The event of an open websocket, for the first time or again."""


@dataclasses.dataclass(frozen=True)
class PassedOver:
    """The event of a frame that is no message, with the reason."""

    reason: str


@dataclasses.dataclass(frozen=True)
class GivenUp:
    """The event of a connection that was given up: no worker, or no worker for this algorithm.

    Attributes:
        reason: Last error of the connection in words.
        holder: Host of the algorithm that is already connected. None: no such algorithm.
    """

    reason: str
    holder: str | None = None


class Connection:
    """A connection to the worker that reads in a thread of its own.

    Args:
        url: URL of the worker's websocket, such as ``ws://127.0.0.1:3000``.
        encoding: Encoding of the frames: ``json``, ``msgpack`` or ``bson``.
        limit_s: Seconds to retry without a worker before giving up.
        take: Function that gets `Opened`, each `Message`, `PassedOver`, and finally `GivenUp`, in
            the thread. Ignore the events after `close`.

    Raises:
        RequestError: The URL is no websocket URL.
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
                f"{without_password(url)} is not a websocket URL",
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
        """Send a message; return False if no worker is connected."""
        socket = self._socket
        if socket is None:
            return False
        try:
            socket.send(encode(message, self._encoding))
        except (ConnectionClosed, OSError):
            return False
        return True

    def close(self) -> None:
        """Close the websocket without reconnecting."""
        self._closed.set()
        socket = self._socket
        if socket is not None:
            socket.close()

    def _work(self) -> None:
        """Keep the websocket connected until it is closed or given up."""
        try:
            self._take(GivenUp(self._keep_up()))
        except _HeldByAnotherError as held:
            self._take(GivenUp(_HELD, holder=str(held)))
        except Exception as error:
            # Without this event, the loop would not notice that the reader has stopped.
            self._take(GivenUp(f"{type(error).__name__}: {error}"))

    def _keep_up(self) -> str:
        """Reconnect until the connection is closed or given up; return the last error."""
        last, delay_s, reason = time.monotonic(), _FIRST_DELAY_S, ""
        while not self._closed.is_set():
            try:
                with connect(
                    self._url,
                    compression=None,
                    max_size=_MAX_BYTES,
                    open_timeout=_OPENING_S,
                    close_timeout=_CLOSING_S,
                    # HKube's own clients send no pings, so a worker may not answer them.
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
        """Read until the connection ends; return whether it lasted longer than 2 s.

        A server that closes soon after opening does not accept the algorithm. Such a connection
        must not reset the backoff and the time limit.
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
            # The caller reconnects, as after an orderly close.
            pass
        finally:
            self._socket = None
        return time.monotonic() - opened > _LONGEST_DELAY_S
