"""The processes that stage tasks' inputs and outputs, as the executor's loop sees them."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import pickle
import selectors
import subprocess
from collections import deque
from typing import TYPE_CHECKING

from tarmac.jobs.executors.staging import Answer
from tarmac.masking import without_known
from tarmac.processes import MARK, OutputTail, Process, last_line, python_command, spawn, watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from tarmac.jobs.executors.staging import StageIn, StageOut

# Of the standard error of a process, whose last line says why it ended.
_KEPT_BYTES = 4096
# What a process has started may keep its standard error open.
_OUTPUT_TIMEOUT_S = 1.0


@dataclasses.dataclass(eq=False)
class _Stager:
    process: Process
    connection: Connection
    errors: OutputTail
    task: int | None = None


class Stagers:
    """Processes that stage, started when they are first needed, each one request at a time.

    Each leads a session of its own, with its installers and engines' clients, and has the run's
    mark, so that a guardian ends what this process cannot.

    Args:
        mark: Random hex text in each process's environment, by which a guardian finds it.
        most: Most staging processes at once.
        selector: Selector where each process's connection is registered for reading.
    """

    def __init__(self, mark: str, most: int, selector: selectors.BaseSelector) -> None:
        self._mark = mark
        self._most = most
        self._selector = selector
        self._all: list[_Stager] = []
        self._queue: deque[tuple[int, StageIn | StageOut]] = deque()
        self._answers: list[tuple[int, Answer]] = []

    def submit(self, task: int, request: StageIn | StageOut) -> None:
        """Have a request done, as soon as a process is free.

        Args:
            task: Index of the task, which comes back with the answer.
            request: Inputs and environment to stage in, or outputs to stage out.
        """
        self._queue.append((task, request))
        self._hand_out()

    def withdraw(self, task: int, reason: str, grace_s: float) -> None:
        """End what is done for a task, or let it never begin; the answer says so.

        Args:
            task: Index of the task to withdraw.
            reason: Reason for people, which becomes the answer's error.
            grace_s: Seconds from SIGTERM to SIGKILL.
        """
        queued = [entry for entry in self._queue if entry[0] == task]
        for entry in queued:
            self._queue.remove(entry)
            self._answers.append((task, Answer(error=reason)))
        for stager in self._all:
            if stager.task == task:
                stager.process.ask_to_end(reason, grace_s)

    def answers(self, now: float) -> Iterator[tuple[int, Answer]]:
        """Yield what has been done, with the task's number.

        Args:
            now: Time by the monotonic clock.
        """
        for stager in [*self._all]:
            stager.process.enforce(now, None, None, 0.0)
            # One that is idle and has something to say has ended.
            if stager.connection.poll():
                self._hear(stager)
        self._hand_out()
        answers, self._answers = self._answers, []
        yield from answers

    def times_to_look(self) -> list[float]:
        """Return when one may have to be killed, by the monotonic clock; now for an answer."""
        times = [time for stager in self._all for time in stager.process.times_to_look(None)]
        return [*times, *([0.0] if self._answers else [])]

    def close(self) -> None:
        """End all of them at once."""
        self._queue.clear()
        for stager in [*self._all]:
            stager.process.kill()
            self._forget(stager)

    def _hand_out(self) -> None:
        while self._queue:
            try:
                stager = self._free()
            except OSError as error:
                task, _ = self._queue.popleft()
                self._answers.append((task, Answer(error=f"no process can be started: {error}")))
                continue
            if stager is None:
                return
            stager.task, request = self._queue.popleft()
            # One that has ended is heard of when it is listened to.
            with contextlib.suppress(OSError):
                stager.connection.send(request)

    def _free(self) -> _Stager | None:
        for stager in self._all:
            if stager.task is None and not stager.process.stopped_for:
                return stager
        return self._start() if len(self._all) < self._most else None

    def _start(self) -> _Stager:
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            try:
                process = watch(
                    spawn(
                        python_command("tarmac.jobs.executors.stager", str(theirs.fileno())),
                        environment=os.environ,
                        mark=f"{MARK}={self._mark}",
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE,
                        pass_fds=(theirs.fileno(),),
                    )
                )
            except OSError:
                ours.close()
                raise
        errors = OutputTail(process.child.popen.stderr, _KEPT_BYTES)
        stager = _Stager(process, ours, errors)
        self._selector.register(ours, selectors.EVENT_READ)
        self._all.append(stager)
        return stager

    def _hear(self, stager: _Stager) -> None:
        """Take an answer, or notice that the process has ended without one."""
        try:
            answer = stager.connection.recv()
            assert isinstance(answer, Answer)
        except (EOFError, OSError, pickle.UnpicklingError):
            code = self._forget(stager)
            reason = stager.process.stopped_for or f"staging ended with exit code {code}"
            error = last_line(without_known(stager.errors.text(_OUTPUT_TIMEOUT_S)))
            if error and not stager.process.stopped_for:
                reason += f": {error}"
            answer = Answer(error=reason)
        if stager.task is not None:
            self._answers.append((stager.task, answer))
            stager.task = None

    def _forget(self, stager: _Stager) -> int:
        self._all.remove(stager)
        self._selector.unregister(stager.connection)
        stager.connection.close()
        return stager.process.finish()
