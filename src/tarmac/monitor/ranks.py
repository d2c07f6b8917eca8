"""The ranks of one training on several machines, together: the slowest first."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.monitor.snapshot import HostSnapshot

__all__ = ["ranks_together"]


def ranks_together(hosts: Sequence[HostSnapshot]) -> tuple[HostSnapshot, ...]:
    """Return the hosts; a training that several of them tell of has the ranks of all on each.

    Ranks of other hosts get the host's name as ``host``. Of a rank that more than one tells
    of the first counts, and the slowest, by ``samples_per_s``, come first.
    """
    ranks: dict[tuple[str, str], dict[object, dict[str, object]]] = {}
    tellers: dict[tuple[str, str], int] = {}
    for host in hosts:
        for work in host.work:
            key = (work.id, work.path)
            tellers[key] = tellers.get(key, 0) + bool(work.ranks)
            known = ranks.setdefault(key, {})
            for number, rank in enumerate(work.ranks):
                told = rank if "host" in rank else {**rank, "host": host.host.name}
                known.setdefault(rank.get("rank", (host.host.name, number)), told)
    return tuple(
        dataclasses.replace(
            host,
            work=tuple(
                dataclasses.replace(work, ranks=_slowest_first(ranks[key].values()))
                if tellers[key := (work.id, work.path)] > 1 and work.ranks
                else work
                for work in host.work
            ),
        )
        for host in hosts
    )


def _slowest_first(ranks: object) -> tuple[dict[str, object], ...]:
    def speed(rank: dict[str, object]) -> float:
        told = rank.get("samples_per_s")
        return float(told) if isinstance(told, (int, float)) else float("inf")

    return tuple(sorted(ranks, key=speed))  # type: ignore[call-overload]
