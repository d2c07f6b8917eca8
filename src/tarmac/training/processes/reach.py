"""Finds which hosts cannot reach each other, once processes have waited for each other in vain.

Each host listens at the address that Gloo takes there, its name's, from before they meet. Who is
asked later connects to all others at once: a connection comes about whatever the process that
listens is busy with.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# A host's name and port, and the address that its name stands for there; empty for none.
Place = tuple[str, str, int]

_CONNECT_S = 3.0
# How much later another process may begin to look.
_OTHERS_WITHIN_S = 5.0


@contextlib.contextmanager
def listening(host: str) -> Iterator[Place]:
    """Listen meanwhile; give where.

    Args:
        host: This one's name, for words.
    """
    address = ""
    # An interface that is named is another one than that of the host's name.
    if "GLOO_SOCKET_IFNAME" not in os.environ:
        with contextlib.suppress(OSError):
            address = socket.gethostbyname(socket.gethostname())
    with contextlib.ExitStack() as opened:
        port = 0
        if address:
            with contextlib.suppress(OSError):
                server = opened.enter_context(socket.create_server((address, 0), backlog=1024))
                port = server.getsockname()[1]
        yield (host, address if port else "", port)


def find_unreached(store: Store, rank: int, places: Sequence[Place]) -> str:
    """Say which hosts cannot reach which; empty where all can, or none can tell.

    All ranks are to call it at about the same time; who does not is not waited for long.

    Args:
        store: What the ranks share; used by this alone.
        rank: Global rank of this process, from 0.
        places: Host name, address and port of each rank, by rank.
    """
    own = PrefixStore("unreached", store)
    host = places[rank][0]
    # One process of a host looks for all of it, at one process of each other host.
    first = {name: number for number, (name, _, _) in reversed([*enumerate(places)])}
    if len(first) == 1:
        return ""
    if first[host] == rank:
        others = {name: places[number] for name, number in first.items() if name != host}
        problems = _connect_to_all(others)
        words = [f"{host} cannot reach {name} {why}" for name, why in sorted(problems.items())]
        with contextlib.suppress(dist.DistError):
            own.set(str(rank), json.dumps(words))
    failures: list[str] = []
    end = time.monotonic() + _CONNECT_S + _OTHERS_WITHIN_S
    for number in sorted(first.values()):
        left = timedelta(seconds=max(0.1, end - time.monotonic()))
        with contextlib.suppress(dist.DistError):
            own.wait([str(number)], left)
            failures += json.loads(own.get(str(number)))
    return ", ".join(failures)


def _connect_to_all(places: Mapping[str, Place]) -> Mapping[str, str]:
    """Return the hosts that cannot be connected to, and at which address and port, and why."""
    problems: dict[str, str] = {}
    connections: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as opened:
        for host, (_, address, port) in places.items():
            if address:
                connection = opened.enter_context(socket.socket())
                connections[connection.fileno()] = connection
                connection.setblocking(False)
                connection.connect_ex((address, port))
                selector.register(connection, selectors.EVENT_WRITE, host)
        end = time.monotonic() + _CONNECT_S
        while selector.get_map() and (left_s := end - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                connection, host = connections[key.fd], key.data
                selector.unregister(connection)
                error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    problems[host] = f"{_where(places[host])} ({os.strerror(error)})"
        for key in selector.get_map().values():
            problems[key.data] = f"{_where(places[key.data])} (no answer in {_CONNECT_S:g} s)"
    return problems


def _where(place: Place) -> str:
    return f"at {place[1]}:{place[2]}"
