"""Refuses to go on with a run here whose tasks are on another cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.errors import RequestError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tarmac.jobs.executors.queueing.chunks import ChunkRecord
    from tarmac.jobs.executors.queueing.clusters import ClusterId

__all__ = ["refuse_other_cluster"]


def refuse_other_cluster(
    run: Path,
    engine: str,
    left: Iterable[ChunkRecord],
    here: ClusterId | None,
    has: Callable[[ChunkRecord], bool],
) -> None:
    """Raise a RequestError where a run has left tasks on a cluster that is not this one.

    Args:
        run: The run's directory.
        engine: The engine's title.
        left: Chunks that are not over.
        here: The cluster that commands reach now; None while it does not say.
        has: Whether this cluster has a chunk's jobs. Asked where a cluster of the same name is at
            another address: its controller may have moved.
    """
    for chunk in left:
        there = chunk.cluster
        if here is None or there is None or not there.differs(here):
            continue
        is_same_name = bool(there.name) and there.name == here.name
        if is_same_name and has(chunk):
            continue
        names = [cluster.name or cluster.uid for cluster in (there, here)]
        if is_same_name:
            uids = (cluster.uid.rpartition("@")[2] for cluster in (there, here))
            names = [f"{here.name} ({uid})" for uid in uids]
        way = f"{there.way} " if there.way else ""
        raise RequestError(
            f"tasks of {run.name} are on the {engine} cluster {names[0]}, and this is {names[1]}",
            hint=f"On {names[0]}, go on: {way}tarmac run --resume {quoted(run)}\n"
            f"Or end them there first: {way}tarmac cancel {quoted(run)}",
        )
