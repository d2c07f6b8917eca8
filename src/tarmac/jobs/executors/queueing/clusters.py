"""Which cluster an engine's units are on, so that no other one is asked for them.

Example:
    >>> from tarmac.jobs.executors.queueing.clusters import ClusterId
    >>> ClusterId("s1").differs(ClusterId("s2"))
    True
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.errors import RequestError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tarmac.jobs.executors.queueing.chunks import ChunkRecord

__all__ = ["ClusterId", "refuse_other_cluster"]


@dataclasses.dataclass(frozen=True)
class ClusterId:
    """A cluster, as it calls itself.

    Attributes:
        name: For people: Slurm's ``ClusterName``, or a server's address. Empty where the address
            says nothing outside, as in a pod.
        uid: What no other cluster has: an identifier of its own, or ``NAME@ADDRESS`` of Slurm's
            controller. Empty where it may not be read.
        way: Shell text that leads a command there, such as ``SLURM_CONF=/etc/s1/slurm.conf``; empty
            where none is known.
    """

    name: str
    uid: str = ""
    way: str = ""

    def differs(self, other: ClusterId) -> bool:
        """Whether the two are known to be different clusters."""
        if self.uid and other.uid:
            return self.uid != other.uid
        return bool(self.name and other.name and self.name != other.name)


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
