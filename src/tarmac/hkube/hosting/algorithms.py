"""The state of one algorithm in a host: its waiting tasks and its instances."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from typing import TYPE_CHECKING, Any, Literal

from tarmac.hkube.hosting.instances import Instance, Place
from tarmac.hkube.hosting.interface import Why
from tarmac.hkube.hosting.waiting import Waiting
from tarmac.jobs import Container, Task

if TYPE_CHECKING:
    from tarmac.formats import Algorithm

# Settings of the worker that a definition may set in `workerEnv`.
_START = "ALGORITHM_DISCONNECTED_TIMEOUT_MS"
_ALIVE = "WRAPPER_TIMEOUT_DURATION"
_MAX_BYTES = "WORKER_SOCKET_MAX_PAYLOAD_BYTES"


@dataclasses.dataclass(eq=False)
class Hosted:
    """An algorithm in a host.

    Attributes:
        algorithm: Algorithm as its definition has it.
        template: Task planned from the algorithm's job.
        waiting: Queue of tasks without an instance.
        instances: Instances that have not ended.
        state: Preparation of the image and the listening address; ``ready`` when both are known.
        host: Address at which instances reach their workers.
        is_checked: Whether the algorithm is known to fit this machine.
        problem: Reason why no task of the algorithm can run, as code and words. None: tasks can.
        place: Directories and session of the next instance. None until they are open.
        is_opening: Whether ``place`` is being opened.
        reported_reason: Last reported reason why the first task waits.
        is_warming: Whether to start up to ``minHotWorkers`` instances before there are tasks. False
            after an instance has ended by itself.
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
    reported_reason: str = ""
    is_warming: bool = True

    @property
    def name(self) -> str:
        """The job's name, which is valid as a directory name."""
        return self.algorithm.job.name

    @property
    def is_plain(self) -> bool:
        """Whether an instance is a program that runs one task."""
        return self.algorithm.protocol == "plain"

    @property
    def start_s(self) -> float | None:
        """The seconds that an instance may take to connect; None if not in the definition."""
        return self._seconds(_START)

    @property
    def session_options(self) -> dict[str, Any]:
        """The socket options of the definition, and the users whose processes may connect."""
        # Containers have their own users, and a program of root may switch to another user.
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
        """Return a setting of the definition in seconds; None if missing or invalid."""
        number = _number(self.algorithm.worker_env.get(name))
        return None if number is None else number / 1000

    def count(self, *states: str) -> int:
        """Return the number of instances in some states."""
        return sum(instance.state in states for instance in self.instances)

    @property
    def num_wanted(self) -> int:
        """The number of further instances that the algorithm could use, ignoring limits."""
        num_coming = 0 if self.is_plain else self.count("starting", "idle")
        num_wanted = len(self.waiting) - num_coming
        if self.is_warming and self.state == "ready" and not self.is_plain:
            num_wanted = max(num_wanted, self.algorithm.min_hot_workers - len(self.instances))
        return max(0, num_wanted)

    @property
    def num_idle_to_spare(self) -> int:
        """The number of idle instances beyond ``minHotWorkers``."""
        num_idle = self.count("idle")
        num_others = self.count("starting", "busy")
        return min(num_idle, num_idle + num_others - self.algorithm.min_hot_workers)


def _number(text: str | None) -> float | None:
    with contextlib.suppress(TypeError, ValueError):
        number = float(text or "")
        return number if 0 < number < math.inf else None
    return None
