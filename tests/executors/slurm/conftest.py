"""A real Slurm of two nodes, for each module of tests."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from by_commands import run_tarmac

from tarmac.executors.queueing import Patience
from tarmac.executors.slurm import SlurmExecutor
from tarmac.jobs import Event, Silent, Site, Task, parse_job, plan_tasks, run_tasks
from tarmac.jobs.progress import Ended

# A cluster that looks for work often, so that tests wait for what they test; and whose nodes may
# have more CPUs than this machine.
QUICK = (
    "SchedulerParameters=sched_min_interval=10000,sched_interval=1,bf_interval=1,batch_sched_delay=0",
    "SlurmdParameters=config_overrides",
)


@pytest.fixture(scope="module")
def cluster(start_slurm, request):
    """Start a cluster with the settings that the module names in ``SETTINGS``."""
    settings = (*QUICK, *getattr(request.module, "SETTINGS", ()))
    return start_slurm(settings=settings, **getattr(request.module, "CLUSTER", {}))


@pytest.fixture
def on_cluster(cluster, monkeypatch):
    """Lead this process's commands of Slurm to the module's cluster; no job outlives the test."""
    for name, value in cluster.variables.items():
        monkeypatch.setenv(name, value)
    yield cluster
    cluster.run("scancel", f"--user={os.getuid()}")


# A file system of one machine shows files at once.
HASTY = Patience(record_s=2.0, success_s=2.0, unknown_s=2.0, unknown_looks=2, beat_s=2.0)


class Progress(Silent):
    """Keeps what a run tells, and does what a test wants to be done as it goes.

    Attributes:
        events: What was told of attempts.
        ends: Of tasks, by name.
        retries: Reasons for another attempt, by the task's name.
        act: Gets this object each time something was told, or time has passed.
    """

    def __init__(self, act: Callable[[Progress], None] = lambda _: None) -> None:
        self.events: list[Event] = []
        self.ends: dict[str, Ended] = {}
        self.retries: list[tuple[str, str]] = []
        self.act = act

    def told(self, event: Event) -> None:
        self.events.append(event)

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        self.retries.append((task.name, reason))

    def ended(self, ended: Ended) -> None:
        assert ended.task.name not in self.ends, f"{ended.task.name} ended twice"
        self.ends[ended.task.name] = ended

    def waited(self) -> None:
        self.act(self)

    def of(self, kind: type[Event]) -> list[Any]:
        """Return the events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


@dataclasses.dataclass
class Runs:
    """Takes jobs' tasks through Slurm in a directory of their own."""

    directory: Path
    patience: Patience = HASTY

    @property
    def run(self) -> Path:
        return self.directory / "run"

    def tasks(self, job: str) -> list[Task]:
        return [*plan_tasks(parse_job(textwrap.dedent(job)), self.directory)]

    def __call__(
        self,
        job: str,
        act: Callable[[Progress], None] = lambda _: None,
        *,
        concurrency: int | None = None,
        keep_going: bool = False,
        detach: Callable[[], bool] = lambda: False,
        stop: Callable[[], bool] = lambda: False,
    ) -> Progress:
        """Work on a job's tasks until they have ended, or are left alone."""
        tasks, progress = self.tasks(job), Progress(act)
        (self.run / "tasks").mkdir(parents=True, exist_ok=True)
        site = Site(
            tasks=tasks,
            run=self.run,
            base=self.directory,
            shared=self.run / "shared",
            fake_gpus=2,
            concurrency=concurrency,
            keep_going=keep_going,
        )
        executor = SlurmExecutor(site, patience=self.patience, find_again_s=0.1)
        with contextlib.closing(executor):
            run_tasks(tasks, self.run, executor, progress, detach=detach, stop=stop)
        return progress

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file that tasks have written."""
        path = self.directory / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def wrote(self, name: str) -> Path:
        return self.directory / name


@pytest.fixture
def runs(on_cluster, tmp_path, monkeypatch):
    """Take jobs through the module's cluster; what was disturbed begins again at once."""
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    return Runs(tmp_path)


@pytest.fixture
def wrapped(tmp_path, monkeypatch):
    """Return a function that puts a script of bash in the place of one of Slurm's commands.

    ``$REAL`` in it is the command itself, and ``$CALLS`` a file where a line stands for each call.
    """

    def wrap(command: str, script: str) -> Path:
        real = shutil.which(command)
        calls = tmp_path / f"{command}.calls"
        file = tmp_path / "wrapped" / command
        file.parent.mkdir(exist_ok=True)
        lines = ("#!/bin/bash", f"REAL={real} CALLS={calls}", 'echo "$*" >> "$CALLS"', script)
        file.write_text("\n".join(lines) + "\n")
        file.chmod(0o755)
        monkeypatch.setenv("PATH", str(file.parent), prepend=os.pathsep)
        return calls

    return wrap


@pytest.fixture
def tarmac(on_cluster, tmp_path, monkeypatch):
    """Return a function that runs the command line on the module's cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TARMAC_RUNS", raising=False)
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    return run_tarmac
