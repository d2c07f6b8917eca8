"""The pool of staging processes, which the local executor's loop drives."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import pickle
import selectors
import subprocess
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tarmac.executors.staging import Answer, StageIn, StageOut
from tarmac.masking import without_known
from tarmac.processes import MARK, OutputTail, Process, last_line, python_command, spawn, watch

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# Bytes kept of a process's standard error; its last line says why the process ended.
_KEPT_BYTES = 4096
# Children of the process may keep its standard error open.
_OUTPUT_TIMEOUT_S = 1.0


@dataclasses.dataclass(eq=False)
class _Stager:
    process: Process
    connection: Connection
    errors: OutputTail
    task: int | None = None


class Stagers:
    """A pool of staging processes, started on demand, with one request at a time each.

    Each process leads a session of its own, with its installers and engines' clients. It has the
    run's mark, so that a guardian ends the processes that this process cannot.

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
        """Queue a request; the first free process performs it.

        Args:
            task: Index of the task, which comes back with the answer.
            request: Inputs and environment to stage in, or outputs to stage out.
        """
        self._queue.append((task, request))
        self._hand_out()

    def withdraw(self, task: int, reason: str, grace_s: float) -> None:
        """Cancel the request of a task, queued or in progress; the answer carries the reason.

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
        """Yield each answer with its task's index.

        Args:
            now: Time by the monotonic clock.
        """
        for stager in [*self._all]:
            stager.process.enforce(now, None, None, 0.0)
            # An idle process only becomes readable when it has ended.
            if stager.connection.poll():
                self._on_answer(stager)
        self._hand_out()
        answers, self._answers = self._answers, []
        yield from answers

    def times_to_look(self) -> list[float]:
        """Return when a process may have to be killed, by the monotonic clock; 0 for an answer."""
        times = [time for stager in self._all for time in stager.process.times_to_look(None)]
        return [*times, *([0.0] if self._answers else [])]

    def close(self) -> None:
        """Kill all processes at once."""
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
            # `answers` notices a process that has ended.
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
                        python_command("tarmac.executors.stager", str(theirs.fileno())),
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

    def _on_answer(self, stager: _Stager) -> None:
        """Read an answer, or make one for a process that has ended without an answer."""
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
