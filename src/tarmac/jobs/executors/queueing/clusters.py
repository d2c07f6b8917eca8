"""Which cluster an engine's units are on, so that no other one is asked for them.

Example:
    >>> from tarmac.jobs.executors.queueing.clusters import ClusterId
    >>> ClusterId("s1").differs(ClusterId("s2"))
    True
"""

from __future__ import annotations

import dataclasses


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
