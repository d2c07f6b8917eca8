"""The program on a cluster's node: it hosts one task as on any machine."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from tarmac.errors import TarmacError
from tarmac.hkube.clusters.node_tasks import NodeTaskSpec, ending_file, read_ending, write_ending
from tarmac.hkube.hosting import Ending, Pool, Timers, Work, first_of
from tarmac.wording import in_one_line

# The engine leaves ten seconds from SIGTERM to SIGKILL, and writing the ending needs time too.
_TIMERS = Timers(stop_s=5.0, exit_s=1.0, kill_s=2.0)

# Interval at which an instance's output is passed on.
_LOOK_EVERY_S = 0.1

_PIECE = 2**16

# The exit code of a shell for a program that SIGTERM ended.
_TERMINATED = 128 + signal.SIGTERM

_NO_OTHERS = (
    "it starts other algorithms or pipelines, which are at hand only where its whole pipeline runs "
    "on one machine: tarmac run without --on"
)


def run_errand(path: Path) -> int:
    """Run the task of a task file, and write its ending.

    The output of the instance is printed here. A task that has already succeeded is not repeated,
    for example when its node was lost right after it.

    Args:
        path: File from `errand_file` in which the runner describes the task.

    Returns:
        The exit code: 0 for success, 1 for a failure, 143 after SIGTERM or SIGINT. No ending is
        written with 143.

    Raises:
        StorageError: The task file cannot be read, or the ending cannot be written.
        TarmacError: The task file is damaged.
    """
    errand = NodeTaskSpec.read(path)
    before = read_ending(ending_file(path), errand.work)
    if before is not None and before.succeeded:
        return 0
    try:
        ending = asyncio.run(_host(errand))
    except TarmacError as error:
        ending = Ending(work=errand.work, why="refused", message=str(error), attempts=1)
    if ending is None:
        return _TERMINATED
    write_ending(ending_file(path), ending)
    return 0 if ending.succeeded else 1


async def _host(errand: NodeTaskSpec) -> Ending | None:
    """Host the task and return its ending; None after SIGTERM or SIGINT."""
    directory = Path(tempfile.mkdtemp(prefix="host-", dir=Path.cwd()))  # noqa: TID251 - kept
    loop = asyncio.get_running_loop()
    watcher, calls = _Printer(), _NoCalls()
    pool = Pool(
        {errand.work.algorithm: errand.algorithm},
        directory,
        base=errand.base,
        watcher=watcher,
        calls=calls,
        fake_gpus=errand.fake_gpus,
        timers=_TIMERS,
    )
    printing = loop.create_task(watcher.print_now_and_then())
    try:
        async with pool:
            future = pool.submit(errand.work)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, future.cancel)
            await first_of(future, calls.first_call)
            if not future.done():
                # No answer to the call: wrappers may take a refusal for a result.
                future.cancel()
    finally:
        printing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await printing
        watcher.print_new()
    if calls.first_call.done():
        return Ending(work=errand.work, why="refused", message=_NO_OTHERS, attempts=1)
    return None if future.cancelled() else future.result()


class _Printer:
    """A `Watcher` that prints the output of an instance."""

    def __init__(self) -> None:
        self._logs: dict[Path, tuple[IO[bytes], int]] = {}

    def started(self, work: Work, attempt: int, directory: Path, gpus: Sequence[str]) -> None:
        """Follow the output of the instance from now on."""
        del work, attempt, gpus
        for name, to in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            self._logs.setdefault(directory / name, (to.buffer, 0))

    def progress(self, work: Work, value: float | None, details: str) -> None:
        """Print nothing: only the runner reports progress."""

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        """Print nothing: the task has one attempt here."""

    def waiting(self, work: Work, reason: str) -> None:
        """Print why the task cannot start."""
        sys.stderr.write(in_one_line(f"{work.name} waits: {reason}") + "\n")
        sys.stderr.flush()

    async def print_now_and_then(self) -> None:
        """Print new output periodically."""
        while True:
            self.print_new()
            await asyncio.sleep(_LOOK_EVERY_S)

    def print_new(self) -> None:
        """Print new output."""
        for path, (to, offset) in self._logs.items():
            with contextlib.suppress(FileNotFoundError), path.open("rb") as log:
                log.seek(offset)
                while piece := log.read(_PIECE):
                    to.write(piece)
                    to.flush()
                self._logs[path] = to, log.tell()


class _NoCalls:
    """A `Calls` that notes a call of another algorithm or pipeline and never answers it."""

    def __init__(self) -> None:
        self.first_call: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run_algorithm(self, caller: Work, algorithm: str, inputs: Sequence[Any]) -> Ending:
        """Note the call, and never answer."""
        del caller, algorithm, inputs
        return await self._never()

    async def run_pipeline(self, caller: Work, body: Mapping[str, Any]) -> Any:
        """Note the call, and never answer."""
        del caller, body
        return await self._never()

    async def _never(self) -> NoReturn:
        if not self.first_call.done():
            self.first_call.set_result(None)
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")
