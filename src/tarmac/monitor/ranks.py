"""The merged ranks of one training on several machines, the slowest first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import HostSnapshot


def ranks_together(hosts: Sequence[HostSnapshot]) -> tuple[HostSnapshot, ...]:
    """Return the hosts; each host of a training on several hosts gets the ranks of all.

    Each of these ranks has the name of its host as ``host``; see `merged_ranks`.
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
    listed: Iterable[Sequence[Mapping[str, object]]],
) -> tuple[dict[str, object], ...]:
    """Return each rank once, with all known facts, the slowest by ``samples_per_s`` first.

    If several hosts list a rank, the host of its process takes precedence: the others list what the
    training has recorded.

    Args:
        listed: The ranks that each host lists.
    """
    rank_by_key: dict[object, dict[str, object]] = {}
    for ranks in listed:
        for number, rank in enumerate(ranks):
            key = rank.get("rank", (rank.get("host"), number))
            before = rank_by_key.get(key, {})
            rank_by_key[key] = _over(before, rank) if "pid" in rank else _over(rank, before)
    return tuple(sorted(rank_by_key.values(), key=_speed))


def _placed(rank: Mapping[str, object], host: str) -> Mapping[str, object]:
    """Return a rank with the name of its host, as the monitor shows it."""
    is_here = "pid" in rank or "host" not in rank
    return {**rank, "host": host} if is_here else rank


def _over(less: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """Return the merged facts of one rank; known values of ``more`` take precedence."""
    return {**less, **{k: value for k, value in more.items() if value is not None or k not in less}}


def _speed(rank: Mapping[str, object]) -> float:
    speed = rank.get("samples_per_s")
    return float(speed) if isinstance(speed, (int, float)) else float("inf")
