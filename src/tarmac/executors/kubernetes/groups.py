"""The pods of an attempt on several nodes: their common state and ending, without any request.

The pods start and end together. The agent in the first pod coordinates the attempt and ends the
other pods' programs, so its record is the attempt's. Kubernetes' actions on any pod take
precedence over the record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from tarmac.executors.kubernetes.disruptions import preemption_by
from tarmac.executors.kubernetes.pods import SeenPod
from tarmac.executors.queueing import Ending


@dataclasses.dataclass
class Group:
    """The pods of one attempt, as they were seen last.

    Attributes:
        size: Number of pods that the attempt needs.
        pods: Last seen pods by rank, from 0, including those that are gone.
        gone: Ranks of the pods that no longer exist.
    """

    size: int
    pods: dict[int, SeenPod] = dataclasses.field(default_factory=dict)
    gone: set[int] = dataclasses.field(default_factory=set)

    def see(self, there: Mapping[int, SeenPod]) -> None:
        """Note which pods exist, by rank."""
        self.gone = {rank for rank in self.pods if rank not in there}
        self.pods |= there

    @property
    def live(self) -> Sequence[SeenPod]:
        """The pods that exist and have not ended."""
        return [pod for rank, pod in self.pods.items() if rank not in self.gone and not pod.is_over]

    @property
    def is_deleted(self) -> bool:
        """Whether any pod of the group was deleted."""
        return bool(self.gone) or any(pod.is_deleted for pod in self.pods.values())

    @property
    def phase(self) -> Literal["waiting", "running", "over"]:
        """The common phase of the pods.

        The end of the first pod ends the group. Later pods end by themselves once the first pod
        no longer answers, and a pod that has not begun finds no first pod.
        """
        if 0 in self.pods and (0 in self.gone or self.pods[0].is_over):
            is_left = any(pod.phase != "Pending" for pod in self.live)
            return "running" if is_left else "over"
        is_whole = len(self.pods) == self.size
        return "running" if is_whole and not self.waiting else "waiting"

    @property
    def waiting(self) -> Sequence[tuple[int, SeenPod]]:
        """The pods that have not begun, by rank."""
        return [
            (rank, pod)
            for rank, pod in sorted(self.pods.items())
            if rank not in self.gone and pod.phase == "Pending"
        ]

    @property
    def reason(self) -> str:
        """Why the pods wait, in words; empty where unknown."""
        pods = [(rank, pod) for rank, pod in self.waiting if pod.reason]
        return f"node {pods[0][0]}: {pods[0][1].reason}" if pods else ""

    @property
    def host(self) -> str:
        """The names of the pods' nodes, in the order of ranks."""
        return ",".join(pod.host for _, pod in sorted(self.pods.items()) if pod.host)

    @property
    def disruption(self) -> Ending | None:
        """The first disruption of a pod, which ends the whole group; None for none."""
        for rank, pod in sorted(self.pods.items()):
            # The agent of a later rank exits with success, whatever ended it.
            if pod.reported_disruption is not None:
                words = f"node {rank}: {pod.reported_disruption.words}"
                return dataclasses.replace(pod.reported_disruption, words=words)
        return None

    def ending(self, problem: str = "", queue: str = "") -> Ending:
        """Return how the group ended according to Kubernetes.

        Args:
            problem: Reason for which the group's Job has failed, for people; empty for none.
            queue: Name of the Kueue queue that suspended the Job to take its resources back; empty
                for none.
        """
        if queue:
            return preemption_by(queue, self.host)
        if self.disruption is not None:
            return self.disruption
        ends = {rank: pod.ending for rank, pod in sorted(self.pods.items()) if pod.ending}
        for rank, ending in ends.items():
            # The pod's agent had no time to record this, or never began.
            if ending.cause == "memory" or ending.bad_host:
                return dataclasses.replace(ending, words=f"node {rank}: {ending.words}")
        if 0 in ends:
            return ends[0]
        for rank, ending in ends.items():
            if ending.cause is not None:
                return dataclasses.replace(ending, words=f"node {rank}: {ending.words}")
        return Ending("lost", problem or "its pods are gone, and its result is unknown")
