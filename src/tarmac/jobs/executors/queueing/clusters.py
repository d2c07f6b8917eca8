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
    from pathlib import Path

__all__ = ["ClusterId", "refuse_other_cluster"]


@dataclasses.dataclass(frozen=True)
class ClusterId:
    """A cluster, as it calls itself.

    Attributes:
        name: For people: Slurm's ``ClusterName``, or a server's address. Empty where the address
            says nothing outside, as in a pod.
        uid: The cluster's own identifier; empty where it has none, or it may not be read.
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


def refuse_other_cluster(run: Path, engine: str, left: ClusterId, here: ClusterId) -> None:
    """Raise a RequestError where a run has left tasks on a cluster that is not this one.

    Args:
        run: The run's directory.
        engine: The engine's title.
        left: The cluster that has the tasks.
        here: The cluster that commands reach now.
    """
    if not left.differs(here):
        return
    way = f"{left.way} " if left.way else ""
    names = (left.name or left.uid, here.name or here.uid)
    if names[0] == names[1]:
        names = (f"{left.name} ({left.uid})", f"{here.name} ({here.uid})")
    raise RequestError(
        f"tasks of {run.name} are on the {engine} cluster {names[0]}, and this is {names[1]}",
        hint=f"On {names[0]}, go on: {way}tarmac run --resume {quoted(run)}\n"
        f"Or end them there first: {way}tarmac cancel {quoted(run)}",
    )
