"""Messages between ranks over TCP, a line of JSON each."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import TYPE_CHECKING, Any

from tarmac.errors import TarmacError
from tarmac.files import parse_json

if TYPE_CHECKING:
    from tarmac.checks.ranks.place import Place

_CHUNK_BYTES = 65536
# Limit of a message, larger than the facts of any machine.
_MAX_BYTES = 16 << 20
_GREETING_S = 5.0
_TRY_EVERY_S = 0.2


class Line:
    """One end of a connection.

    Attributes:
        address: IP address of the host at the other end.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._rest = b""
        # A dual-stack socket puts this prefix before an IPv4 address.
        self.address: str = connection.getpeername()[0].removeprefix("::ffff:")

    def send(self, **message: Any) -> None:
        """Send a message; drop it where the other process is gone."""
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        """Return the next message; None where the other end is gone, or sent no valid message.

        Raises:
            TimeoutError: No whole message has come in time.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            left = None if end is None else end - time.monotonic()
            if (left is not None and left <= 0) or len(self._rest) > _MAX_BYTES:
                raise TimeoutError
            self._connection.settimeout(left)
            try:
                received = self._connection.recv(_CHUNK_BYTES)
            except TimeoutError:
                raise
            except OSError:
                return None
            if not received:
                return None
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        with contextlib.suppress(ValueError):
            message = parse_json(line)
            return message if isinstance(message, dict) else None
        return None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def listen(place: Place) -> socket.socket:
    """Return rank 0's listening socket, on the first free port.

    Raises:
        TarmacError: All of the ports are in use.
    """
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    for port in place.ports:
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("", port), family=family, backlog=place.size, dualstack_ipv6=both
            )
    raise TarmacError(
        f"the ports {place.ports[0]} to {place.ports[-1]}, where ranks could meet, are all in use",
        hint="Set another MASTER_PORT for all ranks.",
    )


def connect(place: Place, limit_s: float) -> Line:
    """Connect to rank 0 of this process's launch.

    Raises:
        TarmacError: Rank 0 could not be reached in time.
    """
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        for port in place.ports:
            with contextlib.suppress(OSError):
                line = Line(socket.create_connection((place.host, port), _GREETING_S))
                # The port may belong to another program or another launch.
                greeting = line.receive(_GREETING_S)
                if greeting == {"tarmac": place.launch}:
                    return line
                line.close()
        time.sleep(_TRY_EVERY_S)
    raise TarmacError(
        f"rank {place.rank} found no rank 0 at {place.host}, ports {place.ports[0]} to "
        f"{place.ports[-1]}, within {limit_s:g} s",
        hint="See that rank 0 was started, and that no firewall is between the hosts.",
    )
