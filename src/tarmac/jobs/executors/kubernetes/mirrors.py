"""The attempts of pods that see no file of the run: their logs followed, their words written here.

Which lines those are, and what they become, is `mirror`'s; here is whose they are.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.jobs.executors.kubernetes.followers import Followed, Followers
from tarmac.jobs.executors.kubernetes.mirror import write_began, write_ended
from tarmac.jobs.executors.queueing import ChunkRecord, UnitName
from tarmac.node import AttemptRecord, Chunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from tarmac.jobs.executors.kubernetes.groups import Group
    from tarmac.jobs.executors.kubernetes.pods import SeenPod
    from tarmac.jobs.executors.queueing import ChunkFiles
    from tarmac.kubernetes import Cluster

# So long the last lines of pods that are gone are waited for.
_LAST_WORDS_S = 30.0


class Mirrors:
    """The attempts of one run that are mirrored.

    Args:
        cluster: Cluster where the pods are.
        files: Chunk files of the run, which name the directory of each attempt.
        heard: Function to call, from any thread, when a log has ended.
    """

    def __init__(self, cluster: Cluster, files: ChunkFiles, heard: Callable[[], None]) -> None:
        self._files = files
        self._followers = Followers(cluster, heard)
        self._directories: dict[UnitName, tuple[Path, int]] = {}
        self._until: dict[UnitName, float] = {}

    def begin(self, chunk: ChunkRecord, unit: UnitName, pod: SeenPod, *, restarts: int) -> bool:
        """Note that a unit's pod runs, and follow its log; return whether it may run.

        Args:
            chunk: Chunk that has the unit.
            unit: Number of the chunk and of the unit in it.
            pod: Newest pod of the unit.
            restarts: Number of times that the cluster has restarted the unit.
        """
        directory, number = self._place(chunk, unit)
        began = AttemptRecord(
            chunk.nonce,
            "began",
            restart=restarts,
            host=pod.host,
            engine_id=f"{chunk.name}-{unit.unit}",
        )
        may_run = write_began(directory, number, began)
        self._followers.follow(Followed(pod.name, directory, number), is_over=False)
        return may_run

    def end(self, chunk: ChunkRecord, unit: UnitName, pod: SeenPod, *, restarts: int) -> bool:
        """Write down what an ended pod has said; return whether that is done.

        Args:
            chunk: Chunk that has the unit.
            unit: Number of the chunk and of the unit in it.
            pod: Newest pod of the unit.
            restarts: Number of times that the cluster has restarted the unit.
        """
        directory, number = self._place(chunk, unit)
        if not pod.has_log:
            return True
        heard = self._followers.result(pod.name)
        if heard is None:
            self._followers.follow(Followed(pod.name, directory, number), is_over=True)
            return False
        if heard.record is not None and pod.disruption is None:
            write_ended(directory, number, heard.record._replace(restart=restarts))
        return True

    def end_vanished(self, chunk: ChunkRecord, unit: UnitName) -> bool:
        """Write down what the newest pod has said that is gone; return whether it had."""
        directory, number = self._place(chunk, unit)
        for heard in reversed(self._followers.of(directory, number)):
            if heard.record is not None:
                write_ended(directory, number, heard.record)
                return True
        return False

    def is_reading(self, chunk: ChunkRecord, unit: UnitName) -> bool:
        """Whether what a unit's pods have said is still on its way."""
        return self._followers.is_reading_of(*self._place(chunk, unit))

    def follow_group(self, chunk: ChunkRecord, unit: UnitName, group: Group) -> bool:
        """Note what pods do that are one attempt, and follow their logs; return whether they may.

        Args:
            chunk: Chunk that has the unit.
            unit: Number of the chunk and of the unit in it.
            group: Pods that do the attempt together, by rank.
        """
        directory, number = self._place(chunk, unit)
        for rank, pod in group.pods.items():
            if pod.phase != "Pending" and rank not in group.gone:
                followed = Followed(pod.name, directory, number, rank)
                self._followers.follow(followed, is_over=pod.is_over)
        if group.phase != "running":
            return True
        began = AttemptRecord(chunk.nonce, "began", host=group.host, engine_id=chunk.name)
        return write_began(directory, number, began)

    def end_group(self, chunk: ChunkRecord, unit: UnitName, group: Group) -> bool:
        """Write down what pods have said that are one attempt; return whether that is done."""
        for rank, pod in group.pods.items():
            is_heard = not pod.has_log or self._followers.result(pod.name) is not None
            if rank not in group.gone and pod.is_over and not is_heard:
                return False
            if rank in group.gone and self._followers.is_reading(pod.name):
                # What it printed last may be on its way; of a node that is dead nothing comes.
                until = self._until.setdefault(unit, time.monotonic() + _LAST_WORDS_S)
                if time.monotonic() < until:
                    return False
        directory, number = self._place(chunk, unit)
        for heard in self._followers.of(directory, number):
            # Of one that was killed for its memory, the agent on another node knows only the loss.
            if heard.record is not None and group.ending().cause != "memory":
                write_ended(directory, number, heard.record)
        return True

    def forget(self, unit: UnitName) -> None:
        """Forget a unit that is over."""
        self._until.pop(unit, None)
        if unit in self._directories:
            self._followers.forget(*self._directories.pop(unit))

    def _place(self, chunk: ChunkRecord, unit: UnitName) -> tuple[Path, int]:
        if unit not in self._directories:
            spec = Chunk(self._files.spec(chunk))
            for index in range(chunk.num_units):
                element = spec.element(index)
                place = Path(element.directory), element.number
                self._directories[UnitName(chunk.number, index)] = place
        return self._directories[unit]
