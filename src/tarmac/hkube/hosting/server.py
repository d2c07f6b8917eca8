"""The websocket server for one instance of an algorithm: one connection at a time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from tarmac.hkube.protocol import Link, Message, ProtocolError, decode, encode, read_link
from tarmac.machine import lists_peers, owner_of_peer

if TYPE_CHECKING:
    from websockets.http11 import Request, Response

# Silent, because the session reports connection errors in its own words.
_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())

# A new client waits this long for the end of the current connection.
_TURN_S = 1.0
# Bound on open sockets, because they use file descriptors of the host. More are closed at once.
_MAX_SOCKETS = 8
# Flood limit: after 2000 messages of a task, the reader pauses 0.05 s after every 250 messages.
_FREE_MESSAGES = 2000
_PAUSE_EVERY = 250
_PAUSE_S = 0.05
# Close codes for errors of the client (RFC 6455, 7.4.1): protocol, no UTF-8, too big.
_BREACHES = {1002: "its frames break the protocol", 1007: "its text is not UTF-8"}
_TOO_BIG = 1009


class Gone(Exception):  # noqa: N818 - a connection's end is no error
    """The connection for a message has ended."""


class Receiver(Protocol):
    """The receiver of a connection's events."""

    async def arrived(self, link: Link) -> None:
        """Handle a new connection."""

    async def heard(self, message: Message) -> None:
        """Handle a message."""

    def lost(self) -> None:
        """Handle the end of the connection; another connection may follow."""

    def broken(self, reason: Exception) -> None:
        """Handle an invalid message, or an error while handling a message."""


class _Connection(ServerConnection):
    """A connection that notes when bytes arrive, and that limits open sockets and users."""

    def __init__(self, *args: Any, listener: Listener, **options: Any) -> None:
        super().__init__(*args, **options)
        self.link = Link()
        self.heard_at = self.loop.time()
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._listener.sockets.add(self)
        if len(self._listener.sockets) > _MAX_SOCKETS or not self._listener.lets_in(self):
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.sockets.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self.loop.time()
        super().data_received(data)


class Listener:
    """A listener for one instance of an algorithm, created by `open_listener`.

    Attributes:
        host: Address that the listener is bound to. Empty before `open`.
        port: TCP port that the listener is bound to. 0 before `open`.
        is_closed: Whether the listener was closed.
        num_heard: Number of messages of the current task; the session resets it for each task.
        sockets: Open sockets, including those before the websocket handshake.
        refused: Why the last client was refused. Empty: no client was refused.
    """

    def __init__(
        self, receiver: Receiver, *, max_payload_bytes: int, users: Collection[int] | None
    ) -> None:
        self._receiver = receiver
        self._max_payload_bytes = max_payload_bytes
        self._users = users
        self._server: Server | None = None
        self._connection: _Connection | None = None
        self.is_closed = False
        self.sockets: set[_Connection] = set()
        self.num_heard = 0
        self.host, self.port = "", 0
        self.refused = ""

    async def open(self, host: str) -> None:
        """Start to listen on a free port."""
        self._server = await serve(
            self._serve,
            host,
            0,
            process_request=self._admit,
            # The documentation allows a factory here; the annotation allows only a class.
            create_connection=functools.partial(_Connection, listener=self),  # type: ignore[arg-type]
            # On the same machine, compressing large results only costs time.
            compression=None,
            max_size=self._max_payload_bytes,
            # No pings: a client that computes in its reading thread answers none meanwhile.
            ping_interval=None,
            close_timeout=1,
            server_header=None,
            logger=_LOG,
        )
        self.host, self.port = next(iter(self._server.sockets)).getsockname()[:2]

    @property
    def is_connected(self) -> bool:
        """Whether a message can be sent now."""
        return self._connection is not None and self._connection.state is State.OPEN

    @property
    def heard_at(self) -> float:
        """The loop time at which the algorithm's last bytes arrived."""
        return 0.0 if self._connection is None else self._connection.heard_at

    async def send(self, message: Message) -> None:
        """Send a message on the current connection.

        Raises:
            Gone: There is no connection, or it ended before the message was sent.
            ProtocolError: The connection's encoding cannot carry the message.
        """
        connection = self._connection
        if connection is None:
            raise Gone
        try:
            await connection.send(encode(message, connection.link.encoding))
        except ConnectionClosed as error:
            raise Gone from error

    async def ping(self) -> None:
        """Send a ping, so that the algorithm's websocket library answers if it can."""
        if self._connection is not None and self.is_connected:
            await self._connection.ping()

    def close(self) -> None:
        """Stop listening, and abort all connections at once."""
        self.is_closed = True
        for connection in list(self.sockets):
            connection.transport.abort()
        if self._server is not None:
            self._server.close()

    def lets_in(self, connection: _Connection) -> bool:
        """Whether the user of the connecting process is allowed."""
        if self._users is None:
            return True
        peer, here = connection.remote_address[:2], connection.local_address[:2]
        user = owner_of_peer(peer, here)
        # A system that hides the owners of sockets allows no check.
        if user is None and not lists_peers():
            return True
        if user not in self._users:
            whose = "nobody on this machine" if user is None else f"the user with the id {user}"
            self.refused = f"the process that connected is of {whose}"
        return user in self._users

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        assert isinstance(connection, _Connection)
        try:
            connection.link = read_link(request.path)
        except ProtocolError as error:
            self.refused = error.message
            return connection.respond(http.HTTPStatus.BAD_REQUEST, f"{error.message}\n")
        if self._connection is not None and self._is_taken:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._connection.wait_closed(), _TURN_S)
        if self._is_taken:
            return connection.respond(
                http.HTTPStatus.CONFLICT, "another process of the algorithm is connected\n"
            )
        self._connection = connection
        return None

    @property
    def _is_taken(self) -> bool:
        states = (State.CONNECTING, State.OPEN)
        return self._connection is not None and self._connection.state in states

    async def _serve(self, connection: ServerConnection) -> None:
        assert isinstance(connection, _Connection)
        receiver, encoding = self._receiver, connection.link.encoding
        try:
            await receiver.arrived(connection.link)
            async for frame in connection:
                self.num_heard += 1
                if self.num_heard > _FREE_MESSAGES and self.num_heard % _PAUSE_EVERY == 0:
                    await asyncio.sleep(_PAUSE_S)
                await receiver.heard(decode(frame, encoding))
        except ConnectionClosed as closed:
            reason = self._breach(closed)
            if reason:
                receiver.broken(ProtocolError(reason))
        except Exception as error:
            receiver.broken(error)
        finally:
            if self._connection is connection:
                self._connection = None
                if not self.is_closed:
                    receiver.lost()

    def _breach(self, closed: ConnectionClosed) -> str:
        if closed.sent is None or closed.rcvd_then_sent:
            return ""
        if closed.sent.code == _TOO_BIG:
            return (
                f"a message has more than {self._max_payload_bytes} bytes, which is the limit: "
                "let it return less, or store its result (storage v3)"
            )
        return _BREACHES.get(closed.sent.code, "")


async def open_listener(
    host: str, receiver: Receiver, *, max_payload_bytes: int, users: Collection[int] | None = None
) -> Listener:
    """Return a listener on a free port of an address.

    Args:
        host: Address to listen on, such as ``127.0.0.1``.
        receiver: Handles the connection's start, messages and end.
        max_payload_bytes: Largest message in bytes. A larger one breaks the protocol.
        users: User IDs whose processes may connect. Default: None, any user.

    Raises:
        OSError: The address cannot be listened on.
    """
    listener = Listener(receiver, max_payload_bytes=max_payload_bytes, users=users)
    await listener.open(host)
    return listener
