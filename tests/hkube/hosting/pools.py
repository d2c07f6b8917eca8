"""What tests of a run's host share: algorithms, tasks, and who is told."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import sys
from pathlib import Path

from tarmac.errors import TarmacError
from tarmac.formats import read_algorithm
from tarmac.hkube.hosting import Timers, Work

PROGRAM = Path(__file__).with_name("algorithm.py")

QUICK = Timers(start_s=60, stop_s=60, exit_s=60, kill_s=0.5, stalled_s=0.5)

# For algorithms that never do what they are asked for.
IMPATIENT = Timers(start_s=60, stop_s=0.2, exit_s=0.2, kill_s=0.2)


def define(name="alg", command=(sys.executable, "-u", str(PROGRAM)), own=(), **fields):
    """Return an algorithm that runs on this machine."""
    said = {"command": [*command], **dict(own)}
    definition = {"name": name, "cpu": 0.1, "mem": "512Mi", **fields}
    options = {**definition.get("options", {}), "tarmac": said}
    return read_algorithm({**definition, "options": options})


@dataclasses.dataclass
class Told:
    """What a watcher was told."""

    events: list[tuple] = dataclasses.field(default_factory=list)

    def started(self, work, attempt, directory, gpus):
        self.events.append(("started", work.name, attempt, directory.name, tuple(gpus)))
        assert directory.is_dir()

    def progress(self, work, value, details):
        self.events.append(("progress", work.name, value, details))

    def retrying(self, work, reason, delay_s):
        self.events.append(("retrying", work.name, reason))

    def waiting(self, work, reason):
        self.events.append(("waiting", work.name, reason))

    def of(self, kind):
        return [event[1:] for event in self.events if event[0] == kind]


class Calling:
    """Runs what algorithms ask for in the pool that they are in."""

    def __init__(self):
        self.pool = None
        self.numbers = itertools.count(1000)

    async def run_algorithm(self, caller, algorithm, inputs):
        index = next(self.numbers)
        work = make(*inputs, index=index, algorithm=algorithm, caller=caller, retry="Never")
        return await self.pool.submit(work)

    async def run_pipeline(self, caller, body):
        raise TarmacError("no pipelines")


def make(*inputs, index=0, name=None, algorithm="alg", **fields):
    return Work(
        index=index,
        name=name or f"task[{index}]",
        task_id=f"task-{index}",
        algorithm=algorithm,
        input=[*inputs],
        job_id="job",
        pipeline="pipeline",
        node="node",
        **fields,
    )


def each(*works):
    """Return a use of a pool: submit all at once, and return their endings."""

    async def use(pool):
        return await asyncio.gather(*map(pool.submit, works))

    return use
