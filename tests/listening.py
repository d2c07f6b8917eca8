"""Which addresses a server listens at, as the kernel lists them."""

from __future__ import annotations

from pathlib import Path

from waiting import wait_until

_LISTEN = "0A"


def listening_at(port: int) -> set[str]:
    """Return the addresses, as ``0100007F:1F90``, at which somebody listens on a port.

    The kernel's list may leave a line out while other sockets come and go, so it is read until it
    has the port.
    """
    return wait_until(lambda: _look(port), f"a socket that listens on port {port}")


def _look(port: int) -> set[str]:
    return {
        columns[1]
        for table in Path("/proc/net").glob("tcp*")
        for line in table.read_text().splitlines()[1:]
        if (columns := line.split())[3] == _LISTEN and columns[1].endswith(f":{port:04X}")
    }
