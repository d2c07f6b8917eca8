"""What a host knows of one algorithm: what waits for it, and who works for it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from typing import TYPE_CHECKING, Any, Literal

from tarmac.hkube.hosting.waiting import Waiting
from tarmac.jobs import Container

if TYPE_CHECKING:
    from tarmac.formats import Algorithm
    from tarmac.hkube.hosting.instances import Instance, Place
    from tarmac.hkube.hosting.interface import Why
    from tarmac.jobs import Task

# The worker's own settings that a definition may set by `workerEnv`.
_START = "ALGORITHM_DISCONNECTED_TIMEOUT_MS"
_ALIVE = "WRAPPER_TIMEOUT_DURATION"
_MAX_BYTES = "WORKER_SOCKET_MAX_PAYLOAD_BYTES"


@dataclasses.dataclass(eq=False)
class Hosted:
    """An algorithm in a host.

    Attributes:
        algorithm: As it is defined.
        template: What its job was planned to.
        waiting: Tasks without an instance.
        instances: Those that have not ended.
        state: Whether its image is here and it is known where to listen.
        host: That its instances reach their workers at.
        is_checked: Whether it was seen that it can be done here at all.
        problem: Why none of its tasks can be done, and in words.
        place: Directories and session of the next instance. None until they are open.
        is_opening: Whether ``place`` is being opened.
        told: What was said last of why its first task waits.
        is_warming: Whether instances up to ``minHotWorkers`` are started before there is work for
            them: not after one has ended by itself.
    """

    algorithm: Algorithm
    template: Task
    waiting: Waiting = dataclasses.field(default_factory=Waiting)
    instances: set[Instance] = dataclasses.field(default_factory=set)
    state: Literal["new", "preparing", "ready"] = "new"
    host: str = ""
    is_checked: bool = False
    problem: tuple[Why, str] | None = None
    place: Place | None = None
    is_opening: bool = False
    told: str = ""
    is_warming: bool = True

    @property
    def name(self) -> str:
        """Its job's name, which a directory can have."""
        return self.algorithm.job.name

    @property
    def is_plain(self) -> bool:
        """Whether an instance is a program that does one task."""
        return self.algorithm.protocol == "plain"

    @property
    def start_s(self) -> float | None:
        """How long an instance may take to connect, in seconds, where its definition says it."""
        return self._seconds(_START)

    @property
    def session_options(self) -> dict[str, Any]:
        """What its definition says of its socket, and whose processes may connect to that."""
        # A container's users are its own, and what root starts may become another.
        is_any = isinstance(self.template.environment, Container) or os.geteuid() == 0
        options: dict[str, Any] = {"users": None if is_any else {os.geteuid()}}
        most = _number(self.algorithm.worker_env.get(_MAX_BYTES))
        limits = {
            "max_payload_bytes": None if most is None else int(most),
            "disconnected_timeout_s": self._seconds(_START),
            "alive_timeout_s": self._seconds(_ALIVE),
        }
        return options | {name: number for name, number in limits.items() if number is not None}

    def _seconds(self, name: str) -> float | None:
        """Return what its definition says in milliseconds."""
        number = _number(self.algorithm.worker_env.get(name))
        return None if number is None else number / 1000

    def count(self, *states: str) -> int:
        """Return how many instances are in some states."""
        return sum(instance.state in states for instance in self.instances)

    @property
    def num_wanted(self) -> int:
        """How many more instances it could use, whatever it may have."""
        num_coming = 0 if self.is_plain else self.count("starting", "idle")
        num_wanted = len(self.waiting) - num_coming
        if self.is_warming and self.state == "ready" and not self.is_plain:
            num_wanted = max(num_wanted, self.algorithm.min_hot_workers - len(self.instances))
        return max(0, num_wanted)

    @property
    def num_idle_to_spare(self) -> int:
        """How many idle instances it has above those that are kept while nothing is to be done."""
        num_idle = self.count("idle")
        num_others = self.count("starting", "busy")
        return min(num_idle, num_idle + num_others - self.algorithm.min_hot_workers)


def _number(text: str | None) -> float | None:
    with contextlib.suppress(TypeError, ValueError):
        number = float(text or "")
        return number if 0 < number < math.inf else None
    return None
