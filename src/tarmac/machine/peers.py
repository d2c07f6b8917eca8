"""Whose process is at the other end of a connection from this machine.

A token can be read over a shoulder, and browsers give a cookie to every port of a machine, also to
a server of somebody else. So a connection of another user is refused whatever it knows. The kernel
lists each connection with its owner in ``/proc/net/tcp`` (proc_pid_net(5)).
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["owner_of_peer"]

_TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))

# Columns: number, local address, remote address, state, queues, timers, retransmits, user.
_USER = 7


def owner_of_peer(
    peer: tuple[str, int], own: tuple[str, int], tables: Sequence[Path] = _TABLES
) -> int | None:
    """Return the user ID of who has opened a TCP connection; None where that is not told.

    Args:
        peer: The address and port of the other end, as IPv4 writes it.
        own: Those of this end.
        tables: The kernel's lists; both are looked through, for a socket of IPv6 reaches an
            address of IPv4 too.
    """
    try:
        ends = [(_hexadecimal(*peer), _hexadecimal(*own))]
    except OSError:
        return None
    ends.append((_mapped(ends[0][0]), _mapped(ends[0][1])))
    for table in tables:
        try:
            text = table.read_text(encoding="ascii")
        except (OSError, ValueError):
            continue
        for local, remote in ends:
            place = text.find(f" {local} {remote} ")
            if place >= 0:
                return _user(text[text.rfind("\n", 0, place) + 1 : text.find("\n", place)])
    return None


def _user(line: str) -> int | None:
    columns = line.split()
    return int(columns[_USER]) if len(columns) > _USER and columns[_USER].isdecimal() else None


def _hexadecimal(address: str, port: int) -> str:
    """Write an address of IPv4 as the kernel does: a number in this machine's order of bytes."""
    (number,) = struct.unpack("=I", socket.inet_pton(socket.AF_INET, address))
    return f"{number:08X}:{port:04X}"


def _mapped(address: str) -> str:
    """Write the same address as a socket of IPv6 has it: ``::ffff:127.0.0.1``."""
    (marker,) = struct.unpack("=I", b"\0\0\xff\xff")
    return f"{0:016X}{marker:08X}{address}"
