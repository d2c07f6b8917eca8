"""An agent, packed as it travels with a run, and what it is given."""

from __future__ import annotations

import dataclasses
import itertools
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.node import AttemptRecord, AttemptSpec, Chunk, read_attempt, write_agent

_PATIENCE_S = 60


@dataclasses.dataclass
class Run:
    """A run's directory with an agent.

    Attributes:
        path: The directory.
        agent: The packed agent.
    """

    path: Path
    agent: Path
    _chunks: itertools.count = dataclasses.field(default_factory=itertools.count)
    _started: list[subprocess.Popen] = dataclasses.field(default_factory=list)

    def element(self, *command: str, task: int = 0, **values) -> AttemptSpec:
        directory = str(self.path / "tasks" / str(task))
        given = {"number": 1, "nonce": "ours", "directory": directory, "name": f"task {task}"}
        return AttemptSpec(task=task, command=[*command], **{**given, **values})

    def chunk(self, *elements: AttemptSpec) -> Path:
        spec = self.path / "chunks" / f"{next(self._chunks):04}.spec"
        spec.parent.mkdir(parents=True, exist_ok=True)
        Chunk(spec).write([*elements])
        return spec

    def start(
        self,
        *elements: AttemptSpec,
        arguments: tuple[str, ...] = ("0",),
        interpreter: tuple[str, ...] = (sys.executable, "-I", "-S"),
        spec: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        **variables: str,
    ) -> subprocess.Popen:
        agent = subprocess.Popen(
            [*interpreter, str(self.agent), str(spec or self.chunk(*elements)), *arguments],
            env={"PATH": os.environ["PATH"], **variables},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(agent)
        return agent

    def end(self, agent: subprocess.Popen) -> tuple[int, str]:
        """Wait for an agent's end; return its exit code and what it said."""
        said, errors = agent.communicate(timeout=_PATIENCE_S)
        assert said == ""
        return agent.returncode, errors

    def run(self, *elements: AttemptSpec, **given) -> tuple[int, str]:
        return self.end(self.start(*elements, **given))

    def record(self, element: AttemptSpec) -> AttemptRecord:
        record = read_attempt(Path(element.directory), element.number)
        assert record is not None
        return record

    def printed(self, element: AttemptSpec, stream: str = "stdout") -> str:
        return Path(element.directory, stream).read_text()

    def pipe(self, name: str = "pipe") -> Path:
        """Make a named pipe, through which a program says how far it is."""
        path = self.path / name
        os.mkfifo(path)
        return path

    def close(self) -> None:
        for agent in self._started:
            if agent.poll() is None:
                agent.kill()
                agent.communicate()


@pytest.fixture
def end_unheard(run):
    """Return a function that ends an agent and a process of its as Slurm does, that one first.

    The agent is not told before the process has ended.
    """

    def end(agent: subprocess.Popen[str], pid: int) -> None:
        agent.send_signal(signal.SIGSTOP)
        descriptor = os.pidfd_open(pid)
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        assert select.select([descriptor], [], [], _PATIENCE_S)[0]
        os.close(descriptor)
        agent.send_signal(signal.SIGTERM)
        agent.send_signal(signal.SIGCONT)
        run.end(agent)

    return end


@pytest.fixture(scope="session")
def packed(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "agent.pyz"
    write_agent(path)
    return path


@pytest.fixture
def make_run(packed):
    """Return a function that makes a run in a directory."""
    made = []

    def make(directory: Path) -> Run:
        directory.mkdir(parents=True, exist_ok=True)
        made.append(Run(directory, Path(shutil.copy(packed, directory))))
        return made[-1]

    yield make
    for run in made:
        run.close()


@pytest.fixture
def run(make_run, tmp_path) -> Run:
    """A run's directory."""
    return make_run(tmp_path / "run")


@pytest.fixture
def interpreter(run):
    """Return a function that writes what stands for Tarmac's interpreter, a script of sh."""

    def write(script: str) -> str:
        python = run.path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        return str(python)

    return write
