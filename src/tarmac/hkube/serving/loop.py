"""The loop that serves HKube's worker, one task after another, in one warm process.

The main thread handles events: messages, the ends of tasks, signals. A second thread reads the
websocket, and a third thread runs the tasks, one at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

from tarmac.errors import Interrupted, RequestError, TarmacError
from tarmac.files import without_password
from tarmac.hkube.protocol import Encoding, Message
from tarmac.hkube.serving.connection import Connection, GivenUp, Opened, PassedOver
from tarmac.hkube.serving.failures import describe

_R = TypeVar("_R")

# As in HKube's wrappers: after a first `alive`, the worker takes an algorithm that sends nothing
# for 10 s for dead, until the task ends (core/worker, wrapperTimeoutDuration).
_ALIVE_EVERY_S = 5.0
# Each `stopping` restarts the grace period of `stop` (core/worker, STOPPING_TIME_OUT).
_STOPPING_EVERY_S = 1.0
_MAX_EXIT_CODE = 255
# Bound on the delay until a signal is noticed.
_LOOK_EVERY_S = 0.25


class Algorithm(Protocol[_R]):
    """The algorithm that a loop serves."""

    def read(self, data: Any) -> _R:
        """Read the payload of ``initialize``; an exception is reported, and no task starts."""
        ...

    def run(
        self, request: _R, tell: Callable[[float, str], None], is_stopped: Callable[[], bool]
    ) -> Any:
        """Run a task in the thread of all tasks, and return its result.

        Args:
            request: Request that `read` returned for the task.
            tell: Function that gets the fraction of the work done, 0 to 1, and a line about it.
            is_stopped: Function that returns whether the task must stop.
        """
        ...


@dataclasses.dataclass(frozen=True)
class _Progress:
    """The event of a task's progress: the fraction done, and a line about it."""

    done: float
    details: str


@dataclasses.dataclass(frozen=True)
class _Ended:
    """The event of a task's end; the result is in the task's future."""


@dataclasses.dataclass
class _Task:
    """A running task.

    Attributes:
        future: Resolves with the task's result or error.
        stop: Event that is set to stop the task.
        is_told_to_stop: Whether the worker waits for ``stopped``.
        is_dropped: Whether the worker no longer needs the task's result.
    """

    future: Future[Any]
    stop: threading.Event
    is_told_to_stop: bool = False
    is_dropped: bool = False


class Loop(Generic[_R]):
    """The loop that serves an algorithm to a worker.

    Args:
        algorithm: Algorithm that reads requests and runs tasks.
        url: URL of the worker's websocket, such as ``ws://127.0.0.1:3000``.
        encoding: Encoding of the frames: ``json``, ``msgpack`` or ``bson``.
        limit_s: Seconds without a worker after which the process ends.
        environment: Environment whose secrets are redacted in messages, usually ``os.environ``.
        asks_to_end: Function that returns whether a signal asked the process to end.
        say: Function that writes a line to the log.
    """

    def __init__(
        self,
        algorithm: Algorithm[_R],
        url: str,
        encoding: Encoding,
        *,
        limit_s: float,
        environment: Mapping[str, str],
        asks_to_end: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self._algorithm = algorithm
        self._url = url
        self._encoding = encoding
        self._limit_s = limit_s
        self._environment = environment
        self._asks_to_end = asks_to_end
        self._say = say
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._request: _R | None = None
        self._task: _Task | None = None
        self._unsent: deque[Message] = deque()
        self._deferred: deque[Message] = deque()
        self._next_sign = 0.0
        self._given_up: GivenUp | None = None
        self._exit_code: int | None = None

    def run(self) -> int:
        """Serve until the worker sends ``exit``; return the exit code that it asks for.

        Raises:
            Interrupted: A signal arrived; a running task was stopped first.
            TarmacError: No worker was connected for too long.
        """
        self._connection = Connection(
            self._url, self._encoding, limit_s=self._limit_s, take=self._events.put
        )
        with ThreadPoolExecutor(1, "tarmac-task") as self._thread:
            try:
                while self._exit_code is None:
                    with contextlib.suppress(queue.Empty):
                        self._take(self._events.get(timeout=_LOOK_EVERY_S))
                    self._look()
            finally:
                if self._task is not None:
                    self._task.stop.set()
                self._connection.close()
        return self._exit_code

    def _take(self, event: Any) -> None:
        match event:
            case Message():
                self._on_answer(event)
            case Opened():
                self._say(f"connected to {without_password(self._url)}")
                self._send_unsent()
            case PassedOver():
                self._say(f"a frame is ignored: {event.reason}")
            case GivenUp():
                self._given_up = event
            case _Progress():
                data = {"progress": event.done, "details": event.details}
                self._connection.send(Message("progress", data))
            case _Ended():
                self._conclude()

    def _look(self) -> None:
        """End if a signal or a lost worker demands it, and send keep-alives for a task."""
        task = self._task
        if self._asks_to_end() or self._given_up is not None:
            if task is None:
                self._end()
            else:
                task.stop.set()
        if task is not None and time.monotonic() >= self._next_sign:
            self._connection.send(Message("stopping" if task.is_told_to_stop else "alive"))
            every_s = _STOPPING_EVERY_S if task.is_told_to_stop else _ALIVE_EVERY_S
            self._next_sign = time.monotonic() + every_s

    def _end(self) -> None:
        if self._asks_to_end():
            raise Interrupted("interrupted; the worker may start the algorithm again")
        assert self._given_up is not None
        if self._given_up.holder is not None:
            raise TarmacError(
                f"{without_password(self._url)} has an algorithm already, from "
                f"{self._given_up.holder}",
                hint="A debug node of HKube's takes one. End the other one, or start the pipeline "
                "again for a socket of its own.",
            )
        raise TarmacError(
            f"no worker at {without_password(self._url)} for {self._limit_s:g} s: "
            f"{self._given_up.reason}",
            hint="HKube starts one beside each algorithm. If it is elsewhere, set: "
            "WORKER_SOCKET_URL=ws://HOST:PORT\nOr run the algorithm here: tarmac run --help",
        )

    def _on_answer(self, message: Message) -> None:
        task = self._task
        if task is None:
            self._obey(message)
        elif task.is_dropped:
            self._deferred.append(message)
        elif message.command == "stop":
            self._say("the worker stops the task")
            task.is_told_to_stop = True
            task.stop.set()
            self._next_sign = 0.0
        elif message.command in ("initialize", "exit"):
            # The worker starts again without the task; the task's saved state is not lost.
            task.is_dropped = True
            task.stop.set()
            self._deferred.append(message)
        else:
            self._ignore(message)

    def _obey(self, message: Message) -> None:
        """Handle a message while no task runs."""
        match message.command:
            case "initialize":
                self._initialize(message.data)
            case "start":
                self._start()
            case "stop":
                self._request = None
                self._send(Message("stopped"))
            case "exit":
                self._exit_code = self._read_exit_code(message.data)
            case _:
                self._ignore(message)

    def _read_exit_code(self, data: Any) -> int:
        """Return the exit code that the worker asks for. Default 0; HKube's worker sends 0."""
        code = data.get("exitCode") if isinstance(data, dict) else None
        if code is None:
            return 0
        if isinstance(code, str) and code.isdecimal() and code.isascii() and len(code) <= 3:
            code = int(code)
        if isinstance(code, int) and not isinstance(code, bool) and 0 <= code <= _MAX_EXIT_CODE:
            return code
        # A shell would turn 256 into 0, which means success.
        self._say(f"exitCode is {code!r:.80}, expected a number from 0 to 255; 1 is taken")
        return 1

    def _initialize(self, data: Any) -> None:
        self._unsent.clear()
        self._request = None
        try:
            self._request = self._algorithm.read(data)
        except Exception as error:
            self._tell(error)
        else:
            self._send(Message("initialized"))

    def _start(self) -> None:
        request, self._request = self._request, None
        if request is None:
            self._tell(RequestError("start came before initialize"))
            return
        stop = threading.Event()
        self._send(Message("started"))
        future = self._thread.submit(self._algorithm.run, request, self._progress, stop.is_set)
        self._task = _Task(future, stop)
        self._next_sign = 0.0
        future.add_done_callback(lambda _: self._events.put(_Ended()))

    def _progress(self, done: float, details: str) -> None:
        self._events.put(_Progress(done, details))

    def _conclude(self) -> None:
        """Report the task's end, and handle the messages that waited for it."""
        task, self._task = self._task, None
        assert task is not None
        error = task.future.exception()
        was_stopped = isinstance(error, Interrupted) and task.stop.is_set()
        if error is not None and not was_stopped and (task.is_told_to_stop or task.is_dropped):
            self._say(f"while it stopped: {describe(error, self._environment)['message']}")
        if task.is_dropped:
            self._say("the task is stopped, and the worker starts over")
        elif task.is_told_to_stop:
            self._say("the task is stopped")
            self._send(Message("stopped"))
        elif error is None:
            self._say(f"done: {task.future.result()}")
            self._send(Message("done", task.future.result()))
        elif not was_stopped:
            self._tell(error)
        for _ in range(len(self._deferred)):
            self._on_answer(self._deferred.popleft())

    def _tell(self, error: BaseException) -> None:
        report = describe(error, self._environment)
        self._say("\n".join(report[key] for key in ("message", "details") if key in report))
        self._send(Message("errorMessage", error=report))

    def _ignore(self, message: Message) -> None:
        self._say(f"{message.command} is ignored: a training cannot use it now")

    def _send(self, message: Message) -> None:
        """Send a message that must reach the worker, now or after a reconnection."""
        self._unsent.append(message)
        self._send_unsent()

    def _send_unsent(self) -> None:
        while self._unsent and self._connection.send(self._unsent[0]):
            self._unsent.popleft()
