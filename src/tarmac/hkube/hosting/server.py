"""The websocket of one algorithm's instance: one connection at a time, messages in and out."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http
import logging
from typing import TYPE_CHECKING, Any, Protocol

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from tarmac.hkube.protocol import Link, Message, ProtocolError, decode, encode, read_link
from tarmac.machine import lists_peers, owner_of_peer

if TYPE_CHECKING:
    from collections.abc import Collection

    from websockets.http11 import Request, Response

# What goes wrong on a connection is told by the session, in words of its own.
_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())

# A client that comes while another is connected waits so long for that one to be seen gone.
_TURN_S = 1.0
# A process that opens more has its sockets closed at once: descriptors are the host's.
_MAX_SOCKETS = 8
# From so many messages of a task on, no more than so many are read in a second.
_FREE_MESSAGES = 2000
_PAUSE_EVERY = 250
_PAUSE_S = 0.05
# Close codes of what a client has done wrong (RFC 6455, 7.4.1): protocol, no UTF-8, too big.
_BREACHES = {1002: "its frames break the protocol", 1007: "its text is no UTF-8"}
_TOO_BIG = 1009


class Gone(Exception):  # noqa: N818 - a connection's end, which is none
    """The connection that something was to be sent on is no more."""


class Receiver(Protocol):
    """Who hears what an algorithm says."""

    async def arrived(self, link: Link) -> None:
        """A connection is there."""

    async def heard(self, message: Message) -> None:
        """A message has come."""

    def lost(self) -> None:
        """The connection is no more; another one may come."""

    def broken(self, reason: Exception) -> None:
        """The algorithm has sent what is no message, or hearing one failed."""


class _Connection(ServerConnection):
    """Notes when bytes come, and keeps a process from taking the host's descriptors."""

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
    """Listens for one algorithm. Made by `open_listener`.

    Attributes:
        host: Address that the listener is bound to. Empty before `open`.
        port: TCP port that the listener is bound to. 0 before `open`.
        is_closed: Whether it listens no more.
        num_heard: Messages since it was last set to 0, which whoever gives a task does.
        sockets: What is open, of every kind.
        refused: Why the last client was refused for what it asked for; empty where none was.
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
        """Begin to listen on a free port."""
        self._server = await serve(
            self._serve,
            host,
            0,
            process_request=self._admit,
            # A factory is what its documentation asks for, and its annotation a class.
            create_connection=functools.partial(_Connection, listener=self),  # type: ignore[arg-type]
            # Results are large, and the machine is the same.
            compression=None,
            max_size=self._max_payload_bytes,
            # Whoever computes in the thread that reads answers no ping as long as that takes.
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
        """When the algorithm's last bytes came, in the loop's time."""
        return 0.0 if self._connection is None else self._connection.heard_at

    async def send(self, message: Message) -> None:
        """Send a message on the connection that is there.

        Raises:
            Gone: None is there, or it ended before all was sent.
            ProtocolError: The connection's encoding cannot carry it.
        """
        connection = self._connection
        if connection is None:
            raise Gone
        try:
            await connection.send(encode(message, connection.link.encoding))
        except ConnectionClosed as error:
            raise Gone from error

    async def ping(self) -> None:
        """Have the algorithm send something, if it can."""
        if self._connection is not None and self.is_connected:
            await self._connection.ping()

    def close(self) -> None:
        """Listen no more, and end what is connected at once."""
        self.is_closed = True
        for connection in list(self.sockets):
            connection.transport.abort()
        if self._server is not None:
            self._server.close()

    def lets_in(self, connection: _Connection) -> bool:
        """Whether the other end may say anything at all."""
        if self._users is None:
            return True
        peer, here = connection.remote_address[:2], connection.local_address[:2]
        user = owner_of_peer(peer, here)
        # Where the system hides it, it is as it is without this.
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
    """Listen on a free port of an address.

    Args:
        host: Address to listen on, such as ``127.0.0.1``.
        receiver: Handles the connection's start, messages and end.
        max_payload_bytes: Largest message in bytes. A larger one breaks the protocol.
        users: User IDs whose processes may connect. Default: None, any user.

    Raises:
        OSError: It cannot be listened on.
    """
    listener = Listener(receiver, max_payload_bytes=max_payload_bytes, users=users)
    await listener.open(host)
    return listener
