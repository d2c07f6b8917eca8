"""The pods of an attempt on several nodes: what they are together, and how they ended. Pure.

They are begun together and end together. The agent in the first one conducts, and ends the others'
programs, so that its word is the attempt's; what Kubernetes did to any of them goes before that.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from tarmac.jobs.executors.queueing import Ending

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.jobs.executors.kubernetes.pods import SeenPod


@dataclasses.dataclass
class Group:
    """The pods of one attempt, as they were seen last.

    Attributes:
        size: Number of pods that the attempt needs.
        pods: Pods by rank, from 0; those that are gone too.
        gone: Ranks of the pods that are gone.
    """

    size: int
    pods: dict[int, SeenPod] = dataclasses.field(default_factory=dict)
    gone: set[int] = dataclasses.field(default_factory=set)

    def see(self, there: Mapping[int, SeenPod]) -> None:
        """Note which pods are there, by rank."""
        self.gone = {rank for rank in self.pods if rank not in there}
        self.pods |= there

    @property
    def live(self) -> Sequence[SeenPod]:
        """Those that may still do something."""
        return [pod for rank, pod in self.pods.items() if rank not in self.gone and not pod.is_over]

    @property
    def is_deleted(self) -> bool:
        """Whether somebody has deleted one of them."""
        return bool(self.gone) or any(pod.is_deleted for pod in self.pods.values())

    @property
    def phase(self) -> Literal["waiting", "running", "over"]:
        """What they do together.

        The first one's end is everybody's: the others end by themselves once they miss it, and one
        that has not begun finds nobody.
        """
        if 0 in self.pods and (0 in self.gone or self.pods[0].is_over):
            is_left = any(pod.phase != "Pending" for pod in self.live)
            return "running" if is_left else "over"
        is_whole = len(self.pods) == self.size
        return "running" if is_whole and not self.waiting else "waiting"

    @property
    def waiting(self) -> Sequence[tuple[int, SeenPod]]:
        """Those that have not begun, by rank."""
        return [
            (rank, pod)
            for rank, pod in sorted(self.pods.items())
            if rank not in self.gone and pod.phase == "Pending"
        ]

    @property
    def reason(self) -> str:
        """Why they wait, in words; empty where nobody says."""
        pods = [(rank, pod) for rank, pod in self.waiting if pod.reason]
        return f"node {pods[0][0]}: {pods[0][1].reason}" if pods else ""

    @property
    def host(self) -> str:
        """Where they run, by rank."""
        return ",".join(pod.host for _, pod in sorted(self.pods.items()) if pod.host)

    @property
    def disruption(self) -> Ending | None:
        """How others' needs have ended one of them, and so all; None where they have not."""
        for rank, pod in sorted(self.pods.items()):
            # The agent of one that is not the first ends well, whatever it was ended for.
            if pod.told is not None:
                words = f"node {rank}: {pod.told.words}"
                return dataclasses.replace(pod.told, words=words)
        return None

    def ending(self, problem: str = "", queue: str = "") -> Ending:
        """Return how they ended by Kubernetes' word.

        Args:
            problem: Reason for which their Job has failed, for people; empty for none.
            queue: Name of the Kueue queue that has suspended their Job to take its room back; empty
                for none.
        """
        if queue:
            return Ending("preempted", f"the queue {queue} has taken its room back", self.host)
        if self.disruption is not None:
            return self.disruption
        ends = {rank: pod.ending for rank, pod in sorted(self.pods.items()) if pod.ending}
        for rank, ending in ends.items():
            # Its agent had no time to say so, or never began.
            if ending.cause == "memory" or ending.bad_host:
                return dataclasses.replace(ending, words=f"node {rank}: {ending.words}")
        if 0 in ends:
            return ends[0]
        for rank, ending in ends.items():
            if ending.cause is not None:
                return dataclasses.replace(ending, words=f"node {rank}: {ending.words}")
        return Ending("lost", problem or "its pods are gone, and how it ended is not known")
