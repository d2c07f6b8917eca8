"""Workers and served processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from worker import LONG_S, Worker

from forked import start_python
from tarmac.hkube import serve
from tarmac.training import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from forked import ForkedProcess


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Yield a worker that listens."""
    opened = Worker()
    yield opened
    opened.close()


@pytest.fixture
def served(worker, tmp_path) -> Iterator[Callable[..., ForkedProcess]]:
    """Return a function that starts ``tarmac hkube serve`` and waits until it has connected."""
    started: list[ForkedProcess] = []

    def start(*arguments: str, is_awaited: bool = True, **variables: str) -> ForkedProcess:
        environment = {
            **os.environ,
            "WORKER_SOCKET_URL": worker.url,
            "TARMAC_RUNS": str(tmp_path / "runs"),
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        process = start_python(
            *("-m", "tarmac", "hkube", "serve", *arguments),
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        started.append(process)
        if is_awaited:
            worker.connected()
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(ValueError):
            process.communicate(timeout=LONG_S)


class Served:
    """What is served in a thread of the test.

    Attributes:
        lines: What it said.
    """

    def __init__(self, code: Future[int], lines: list[str]) -> None:
        self._code = code
        self.lines = lines

    @property
    def exit_code(self) -> int:
        """What the process would exit with; its end is waited for."""
        return self._code.result(timeout=LONG_S)


@pytest.fixture
def served_here(worker, tmp_path, monkeypatch) -> Iterator[Callable[..., Served]]:
    """Return a function that serves in a thread, and waits until it has connected.

    A process of its own takes seconds to import PyTorch.
    """
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / "runs"))
    with ThreadPoolExecutor() as threads:
        started = []

        def start(workload: str | None = "digits-mlp", **variables: str) -> Served:
            for name, value in {"WORKER_SOCKET_URL": worker.url, **variables}.items():
                monkeypatch.setenv(name, value)
            lines: list[str] = []
            report = contextlib.nullcontext(Silent())
            code = threads.submit(serve, workload, reporting=lambda: report, say=lines.append)
            started.append(Served(code, lines))
            worker.connected()
            return started[-1]

        yield start
        for each in started:
            worker.say("exit", {"exitCode": 0})
            assert each.exit_code == 0
