"""Find the hosts that cannot reach each other, after processes have timed out.

Before the rendezvous, each host listens at the address of its host name, as Gloo does. After a
timeout, one process of each host connects to all other hosts at once. A connection succeeds even if
the listening process is busy.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

# A host's name, the address of that name on the host (empty for none), and a port.
Place = tuple[str, str, int]

_CONNECT_S = 3.0
# Seconds by which another process may start its search later.
_OTHERS_WITHIN_S = 5.0


@contextlib.contextmanager
def listening(host: str) -> Iterator[Place]:
    """Listen on a port within the context, and yield the place.

    Args:
        host: Name of this host, for messages.
    """
    address = ""
    # A named interface has another address than the host's name.
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
    """Return which hosts cannot reach which, in words; empty if all can or nothing is known.

    All ranks should call it at about the same time. It waits for other ranks only a few seconds.

    Args:
        store: Store that all ranks share; no other code may use this object.
        rank: Global rank of this process, from 0.
        places: Host name, address and port of each rank, by rank.
    """
    own = PrefixStore("unreached", store)
    host = places[rank][0]
    # The first process of each host tests the connections to the first process of the others.
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
    """Return the hosts that cannot be connected to, with address, port and reason."""
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
