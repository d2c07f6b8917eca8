"""The identity of an engine's cluster, so that no other cluster is asked for its units.

Example:
    >>> from tarmac.executors.queueing.clusters import ClusterId
    >>> ClusterId("s1").differs(ClusterId("s2"))
    True
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class ClusterId:
    """The identity of a cluster, as the cluster itself reports it.

    Attributes:
        name: Name for people: Slurm's ``ClusterName``, or a server's address. Empty where the
            address means nothing outside, as in a pod.
        uid: Unique identifier of the cluster, or ``NAME@ADDRESS`` of Slurm's controller. Empty
            where the user may not read it.
        way: Shell prefix that makes a command use the cluster, such as
            ``SLURM_CONF=/etc/s1/slurm.conf``; empty where unknown.
    """

    name: str
    uid: str = ""
    way: str = ""

    def differs(self, other: ClusterId) -> bool:
        """Return whether the two are known to be different clusters."""
        if self.uid and other.uid:
            return self.uid != other.uid
        return bool(self.name and other.name and self.name != other.name)
