"""Threads that train one stack each, and the one thread that hears of everything.

On a CPU, two stacks with one thread each are faster than one stack whose operations use two: most
operations are too short to be worth sharing out. For 8 networks of 784-512-512-10 on a 2-core Xeon
it was 1.9 against 3.1 ms a step and network. And a thread that waits for no other loses little
where other programs compute beside it: operations shared out by OpenMP became up to 20 times slower
there, because each waited for a core. PyTorch gives Python's lock back while it computes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import signal
import threading
from collections import deque
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from tarmac.search._evaluator import Progress, Result, Watch
    from tarmac.search.population._network import Network

    Members = tuple[Network, ...]
    Failure = tuple[Members, Exception, Callable[[Members], None]]

__all__ = ["Job", "StoppedError", "work_off"]


class StoppedError(Exception):
    """The stack is no longer wanted."""


@dataclasses.dataclass(frozen=True)
class Job:
    """Networks to train as one.

    Attributes:
        members: Of one shape.
        train: Does it and yields each one's result; is handed whom to ask, and whether to stop.
    """

    members: Members
    train: Callable[[Watch, Callable[[], bool]], Iterator[Result]]


@dataclasses.dataclass(frozen=True)
class _Asked:
    progress: Progress
    answers: queue.SimpleQueue[bool]


@dataclasses.dataclass(frozen=True)
class _Ended:
    job: Job
    error: Exception | None


class _Crew:
    """The threads of one evaluation."""

    def __init__(self, num_threads: int, operations: int | None) -> None:
        self.events: queue.SimpleQueue[_Asked | _Ended | Result] = queue.SimpleQueue()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._operations = operations
        self._threads = [
            threading.Thread(target=self._run, name=f"tarmac-stack-{number}", daemon=True)
            for number in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def give(self, job: Job) -> None:
        """Let the next idle thread do it."""
        self._jobs.put(job)

    def end(self) -> None:
        """Stop what is being trained and wait for it, which takes a step at most."""
        with _interrupt_deferred():
            self._stop.set()
            for _ in self._threads:
                self._jobs.put(None)
            # Whoever waits for an answer gets one.
            while any(thread.is_alive() for thread in self._threads):
                with contextlib.suppress(queue.Empty):
                    event = self.events.get(timeout=0.01)
                    if isinstance(event, _Asked):
                        event.answers.put(True)

    def _run(self) -> None:
        if self._operations is not None:
            torch.set_num_threads(self._operations)
        # For this thread, which ends with it; see `denormals_flushed`.
        torch.set_flush_denormal(True)
        while (job := self._jobs.get()) is not None and not self._stop.is_set():
            error = None
            try:
                for result in job.train(self._ask, self._stop.is_set):
                    self.events.put(result)
            except StoppedError:
                return
            except Exception as caught:
                error = caught
            self.events.put(_Ended(job, error))

    def _ask(self, progress: Progress) -> bool:
        answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.events.put(_Asked(progress, answers))
        return answers.get()


@contextlib.contextmanager
def _interrupt_deferred() -> Iterator[None]:
    """Let Ctrl-C interrupt after the block: PyTorch aborts where Python ends under its threads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed.is_set():
        raise KeyboardInterrupt


def work_off(
    stacks: Iterable[Members],
    prepare: Callable[[Members], Job],
    watch: Watch,
    *,
    num_threads: int,
    operations: int | None,
) -> Generator[Result | Failure]:
    """Train stacks on threads; all that is yielded or asked happens in the caller's thread.

    Args:
        stacks: In the order in which they are begun.
        prepare: Makes a job of a stack, just before it is begun.
        watch: Asked after every epoch of each network.
        num_threads: How many stacks train at once.
        operations: How many threads an operation uses; None for PyTorch's default.

    Yields:
        Results as they come. Where a stack failed, its networks, the error, and a function that
        takes networks to train instead.
    """
    waiting, num_going = deque(stacks), 0
    threads_before = torch.get_num_threads()
    crew = _Crew(num_threads, operations)
    try:
        while waiting or num_going:
            while waiting and num_going < num_threads:
                crew.give(prepare(waiting.popleft()))
                num_going += 1
            match crew.events.get():
                case _Asked(progress, answers):
                    is_beaten = True
                    try:
                        is_beaten = watch(progress)
                    finally:
                        answers.put(is_beaten)
                case _Ended(job, error):
                    num_going -= 1
                    if error is not None:
                        yield job.members, error, waiting.appendleft
                case result:
                    yield result
    finally:
        crew.end()
        if operations is not None:
            # Parts of PyTorch know one number for the whole process.
            torch.set_num_threads(threads_before)
