"""The ranks of one training on several machines, together: the slowest first."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tarmac.monitor.snapshot import HostSnapshot


def ranks_together(hosts: Sequence[HostSnapshot]) -> tuple[HostSnapshot, ...]:
    """Return the hosts; a training that several of them tell of has the ranks of all on each.

    Ranks of other hosts get the host's name as ``host``; see `merged_ranks`.
    """
    ranks_by_work: dict[tuple[str, str], list[list[Mapping[str, object]]]] = {}
    for host in hosts:
        for work in host.work:
            if work.ranks:
                ranks = [_placed(rank, host.host.name) for rank in work.ranks]
                ranks_by_work.setdefault((work.id, work.path), []).append(ranks)
    return tuple(
        dataclasses.replace(
            host,
            work=tuple(
                dataclasses.replace(work, ranks=merged_ranks(ranks_by_work[key]))
                if work.ranks and len(ranks_by_work[key := (work.id, work.path)]) > 1
                else work
                for work in host.work
            ),
        )
        for host in hosts
    )


def merged_ranks(
    told: Iterable[Sequence[Mapping[str, object]]],
) -> tuple[dict[str, object], ...]:
    """Return each rank once, with all that is known of it, the slowest by ``samples_per_s`` first.

    Of a rank that several tell of, the host that has its process knows best: the others tell what
    the training has on record.

    Args:
        told: The ranks that each host tells of.
    """
    rank_by_key: dict[object, dict[str, object]] = {}
    for ranks in told:
        for number, rank in enumerate(ranks):
            key = rank.get("rank", (rank.get("host"), number))
            before = rank_by_key.get(key, {})
            rank_by_key[key] = _over(before, rank) if "pid" in rank else _over(rank, before)
    return tuple(sorted(rank_by_key.values(), key=_speed))


def _placed(rank: Mapping[str, object], host: str) -> Mapping[str, object]:
    """Return a rank with the host that it is on, under the name by which that is shown."""
    is_here = "pid" in rank or "host" not in rank
    return {**rank, "host": host} if is_here else rank


def _over(less: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """Return what two tell of one rank; what the second knows counts."""
    return {**less, **{k: value for k, value in more.items() if value is not None or k not in less}}


def _speed(rank: Mapping[str, object]) -> float:
    speed = rank.get("samples_per_s")
    return float(speed) if isinstance(speed, (int, float)) else float("inf")
