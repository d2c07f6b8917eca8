"""Mirrors pods that do not see the run's directory: follows their logs, writes their records.

`mirror` writes the files; this module knows which pod belongs to which attempt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.executors.kubernetes.followers import Followed, Followers
from tarmac.executors.kubernetes.groups import Group
from tarmac.executors.kubernetes.mirror import write_began, write_ended
from tarmac.executors.kubernetes.pods import SeenPod
from tarmac.executors.queueing import ChunkFiles, ChunkRecord, UnitName
from tarmac.node import AttemptRecord, Chunk

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster

# Wait for the last log lines of pods that are gone.
_LAST_WORDS_S = 30.0


class Mirrors:
    """The mirrored attempts of one run.

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
        """Record the start of a unit's pod and follow its log; return False where it is fenced.

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
        """Record the end of a unit's pod; return False while its log is being read.

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
        """Record the end of a deleted pod from its log; return whether the log had one."""
        directory, number = self._place(chunk, unit)
        for heard in reversed(self._followers.of(directory, number)):
            if heard.record is not None:
                write_ended(directory, number, heard.record)
                return True
        return False

    def is_reading(self, chunk: ChunkRecord, unit: UnitName) -> bool:
        """Return whether a log of a unit's pods is being read."""
        return self._followers.is_reading_of(*self._place(chunk, unit))

    def follow_group(self, chunk: ChunkRecord, unit: UnitName, group: Group) -> bool:
        """Follow the logs of a group and record its start; return False where it is fenced.

        Args:
            chunk: Chunk that has the unit.
            unit: Number of the chunk and of the unit in it.
            group: Pods that run the attempt together, by rank.
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
        """Record the end of a group; return False while its logs are being read."""
        for rank, pod in group.pods.items():
            is_heard = not pod.has_log or self._followers.result(pod.name) is not None
            if rank not in group.gone and pod.is_over and not is_heard:
                return False
            if rank in group.gone and self._followers.is_reading(pod.name):
                # Its last lines may still arrive, but none come from a dead node.
                until = self._until.setdefault(unit, time.monotonic() + _LAST_WORDS_S)
                if time.monotonic() < until:
                    return False
        directory, number = self._place(chunk, unit)
        for heard in self._followers.of(directory, number):
            # When memory was the cause on one node, the agent on another node knows only the loss.
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
