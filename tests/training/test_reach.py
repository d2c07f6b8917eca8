"""Which hosts cannot reach each other, told after processes have waited for each other in vain."""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor

from torch.distributed import HashStore

from tarmac.training.processes import reach
from tarmac.training.processes.reach import find_unreached, listening


def said_by_all(places) -> set[str]:
    store = HashStore()
    with ThreadPoolExecutor(len(places)) as pool:
        ranks = range(len(places))
        return set(pool.map(lambda rank: find_unreached(store, rank, places), ranks))


def test_a_host_that_two_others_cannot_reach_is_named_by_all_ranks_alike():
    with contextlib.ExitStack() as opened:
        # Taken, and nobody listens there.
        silent = opened.enter_context(socket.socket())
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        n1 = ("n1", "127.0.0.1", port)
        others = [opened.enter_context(listening(host)) for host in ("n2", "n3")]
        # Two ranks on each host.
        said = said_by_all([place for place in (n1, *others) for _ in range(2)])
    where = f"n1 at 127.0.0.1:{port} (Connection refused)"
    assert said == {f"n2 cannot reach {where}, n3 cannot reach {where}"}


def test_a_host_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(reach, "_CONNECT_S", 0.1)
    with contextlib.ExitStack() as opened:
        # Its queue holds one connection, and Linux does not answer others.
        full = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        opened.enter_context(socket.create_connection(full.getsockname()))
        n1 = ("n1", *full.getsockname())
        said = said_by_all([n1, opened.enter_context(listening("n2"))])
    assert said == {f"n2 cannot reach n1 at {n1[1]}:{n1[2]} (no answer in 0.1 s)"}


def test_nothing_is_said_of_hosts_that_reach_each_other_or_of_one_host():
    with listening("n1") as first, listening("n2") as second:
        assert said_by_all([first, second]) == {""}
        assert said_by_all([first, first]) == {""}


def test_a_host_with_a_network_of_its_own_choice_is_not_judged_by_its_name(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    with listening("n1") as place:
        assert place == ("n1", "", 0)
