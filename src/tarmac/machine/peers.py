"""The owner of the other end of a connection from this machine.

A token can be read over a shoulder, and browsers send a cookie to every port of a machine, even to
another user's server. So a server refuses connections of other users, whatever secret they have.
The kernel lists each connection with its owner in ``/proc/net/tcp`` (proc_pid_net(5)).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from pathlib import Path

_TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))

# Columns: number, local address, remote address, state, queues, timers, retransmits, user.
_USER = 7

# The kernel writes its list in parts, and may omit a line while other connections open and close.
_MAX_LOOKS = 5


def owner_of_peer(
    peer: tuple[str, int], own: tuple[str, int], tables: Sequence[Path] = _TABLES
) -> int | None:
    """Return the user ID of the owner of a TCP connection's other end.

    Args:
        peer: Address and port of the other end.
        own: Address and port of this end.
        tables: The kernel's lists to search; both, because an IPv6 socket reaches IPv4 addresses
            too.

    Returns:
        The ID; None if the other end is not in this network namespace, or the kernel hides
        connections, see `lists_peers`.
    """
    try:
        ends = [(_hexadecimal(*peer), _hexadecimal(*own))]
        if ":" not in peer[0]:
            ends.append((_hexadecimal(*_mapped(*peer)), _hexadecimal(*_mapped(*own))))
    except OSError:
        return None
    for table in (*tables,) * _MAX_LOOKS:
        text = _read(table) or ""
        for local, remote in ends:
            place = text.find(f" {local} {remote} ")
            if place >= 0:
                return _user(text[text.rfind("\n", 0, place) + 1 : text.find("\n", place)])
    return None


def lists_peers(tables: Sequence[Path] = _TABLES) -> bool:
    """Return whether the kernel lists connections here; some systems hide them."""
    return any(_read(table) is not None for table in tables)


def _read(table: Path) -> str | None:
    try:
        return table.read_text(encoding="ascii")
    except (OSError, ValueError):
        return None


def _user(line: str) -> int | None:
    columns = line.split()
    return int(columns[_USER]) if len(columns) > _USER and columns[_USER].isdecimal() else None


def _hexadecimal(address: str, port: int) -> str:
    """Format an address as the kernel does: words in this machine's byte order."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _mapped(address: str, port: int) -> tuple[str, int]:
    """Return the IPv6 form of an IPv4 address, ``::ffff:127.0.0.1``, with the port."""
    return f"::ffff:{address}", port
