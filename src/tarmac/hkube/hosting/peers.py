"""Whose process is at the other end of a connection from this machine."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

__all__ = ["peer_user"]

_LOCAL, _REMOTE, _USER = 1, 2, 7


def peer_user(peer: tuple[str, int], here: tuple[str, int]) -> int | None:
    """Return the id of the user whose process has the other end of a connection.

    Args:
        peer: Address and port of the other end.
        here: Those of this end.

    Returns:
        None where the other end is not in this network namespace, as in a container with one of its
        own.

    Raises:
        OSError: The system does not say.

    Source: proc_net_tcp.rst of Linux's documentation.
    """
    if ":" in peer[0]:
        return _user(Path("/proc/net/tcp6"), peer, here)
    user = _user(Path("/proc/net/tcp"), peer, here)
    if user is not None:
        return user
    # A socket of IPv6 may speak IPv4, as Java's do.
    mapped = [(f"::ffff:{host}", port) for host, port in (peer, here)]
    with contextlib.suppress(FileNotFoundError):
        user = _user(Path("/proc/net/tcp6"), *mapped)
    return user


def _user(table: Path, peer: tuple[str, int], here: tuple[str, int]) -> int | None:
    wanted = [_written(peer), _written(here)]
    with table.open(encoding="ascii") as rows:
        for row in rows:
            fields = row.split()
            if [fields[_LOCAL], fields[_REMOTE]] == wanted:
                return int(fields[_USER])
    return None


def _written(address: tuple[str, int]) -> str:
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    packed = socket.inet_pton(family, host)
    # Words of the machine's own order of bytes.
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
