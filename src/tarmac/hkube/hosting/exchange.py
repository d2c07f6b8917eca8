"""The messages between worker and algorithm about one task, from ``initialize`` to its end."""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from tarmac.hkube.hosting.executions import COMMANDS, Executions
from tarmac.hkube.hosting.interface import Calls, Ending, Watcher, Why, Work
from tarmac.hkube.hosting.server import Gone
from tarmac.hkube.protocol import Message, ProtocolError, Storage, read_stored

# Least interval of progress reports; in between, only the latest value is kept.
_PROGRESS_EVERY_S = 0.1
# Bounds in characters on error texts, which go into a journal line.
_MAX_MESSAGE = 10_000
_MAX_DETAILS = 100_000


class Stage(enum.IntEnum):
    """The stage of a task in the protocol."""

    NEW = 0
    INITIALIZING = 1
    INITIALIZED = 2
    STARTING = 3
    WORKING = 4


class Exchange:
    """The exchange of messages about one task.

    Args:
        work: Task that the algorithm runs.
        watcher: Receives the task's progress.
        calls: Runs the algorithms and pipelines that the algorithm starts.
        send: Function that sends a message, or raises `Gone`.
        answer: Function that sends a message as soon as there is a connection.
        storage: Directory of the storage, for results by ``v2`` and ``v3``.
        max_bytes: Largest value in the storage, in bytes.
        follows: Whether the same session ran a task before.

    Attributes:
        work: Task passed as the argument ``work``.
        ended: Future of the ending, or of the error that prevents one.
        stage: Stage of the task in the protocol.
        storage: Storage version of the current connection.
        started_at: Loop time at which ``start`` was sent. None before.
        must_speak: Whether the algorithm must send a message: it has sent ``alive`` before, or its
            last message may be lost.
        says_alive: Whether the algorithm has sent ``alive``.
        is_stopping: Whether the algorithm was told to stop, so that ``start`` is not sent.
    """

    def __init__(
        self,
        work: Work,
        *,
        watcher: Watcher,
        calls: Calls,
        send: Callable[[Message], Awaitable[None]],
        answer: Callable[[Message], Awaitable[None]],
        storage: Path,
        max_bytes: int,
        follows: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._watcher = watcher
        self._send = send
        self._directory = storage
        self._max_bytes = max_bytes
        self._follows = follows
        self._calls = calls
        self._answer = answer
        # Created on demand: few algorithms make calls, and its reference back to this object would
        # keep large values in memory longer.
        self._executions: Executions | None = None
        self._stored: Mapping[str, Any] | None = None
        self._untold: tuple[float | None, str] | None = None
        self._told_at = -math.inf
        self._telling: asyncio.TimerHandle | None = None
        self.work = work
        self.ended: asyncio.Future[Ending] = self._loop.create_future()
        self.stage = Stage.NEW
        self.storage: Storage = "v1"
        self.started_at: float | None = None
        self.must_speak = False
        self.says_alive = False
        self.is_stopping = False

    async def go_on(self) -> None:
        """Send the next message of the task, at its start and on a new connection."""
        stage = self.stage
        try:
            if stage is Stage.NEW:
                self.stage = Stage.INITIALIZING
                await self._send(Message("initialize", _initialize(self.work)))
            elif stage is Stage.INITIALIZED and not self.is_stopping:
                self.stage = Stage.STARTING
                self.started_at = self._loop.time()
                await self._send(Message("start", {}))
        except Gone:
            # The algorithm reads complete messages only, so the message can be sent again.
            self.stage, self.started_at = stage, None
        except ProtocolError as error:
            self.end("error", error.message)

    async def heard(self, message: Message) -> None:
        """Handle a message of the algorithm.

        Raises:
            ProtocolError: The message is not allowed at this stage.
        """
        command = message.command
        if self.ended.done():
            # A late message about a task that has ended.
            return
        if self._follows and self.stage < Stage.INITIALIZED and command in _ON_A_TASK:
            # A late message about the previous task.
            return
        if command == "initialized":
            self._expect(command, Stage.INITIALIZING)
            if self.stage is Stage.INITIALIZING:
                self.stage = Stage.INITIALIZED
                self.must_speak = self.says_alive
                await self.go_on()
        elif command == "started":
            self._expect(command, Stage.STARTING)
            self.stage = Stage.WORKING
            self.must_speak = self.says_alive
        elif command == "done":
            self._expect(command, Stage.STARTING)
            self._is_done(message.data)
        elif command == "errorMessage":
            self._expect(command, Stage.INITIALIZING)
            self._has_failed(message)
        elif command == "storing":
            self._expect(command, Stage.STARTING)
            self._stored = message.data if isinstance(message.data, dict) else {}
        elif command == "progress":
            self._progress(message.data)
        elif command == "alive":
            self.must_speak = self.says_alive = True
        elif command in COMMANDS:
            self._expect(command, Stage.STARTING)
            await self._execute(message)
        # Other messages, such as spans and statistics, matter only in a cluster.

    def end(
        self, why: Why, message: str = "", *, value: Any = None, code: str = "", details: str = ""
    ) -> None:
        """End the task, unless it has already ended."""
        self._close()
        if not self.ended.done():
            began = self.started_at
            ending = Ending(
                work=self.work,
                value=value,
                why=why,
                message=message,
                code=code,
                details=details,
                seconds=0.0 if began is None else self._loop.time() - began,
            )
            self.ended.set_result(ending)

    def fail(self, error: Exception) -> None:
        """Fail the wait for the task's end with an error that is not the task's own."""
        self._close()
        if not self.ended.done():
            self.ended.set_exception(error)

    def close(self) -> None:
        """Stop all calls and timers of the task."""
        if self._executions is not None:
            self._executions.close()
            self._executions = None
        if self._telling is not None:
            self._telling.cancel()

    def _close(self) -> None:
        if not self.ended.done():
            self._tell()
        self.close()

    def _expect(self, command: str, first: Stage) -> None:
        if self.stage < first:
            raise ProtocolError(f"it said {command!r} on a task {_TOLD[self.stage]}")

    async def _execute(self, message: Message) -> None:
        if self._executions is None:
            self._executions = Executions(
                self.work,
                self._calls,
                self._answer,
                on_error=self.fail,
                storage=self._directory,
                max_bytes=self._max_bytes,
            )
        await self._executions.heard(message)

    def _is_done(self, value: Any) -> None:
        if self.storage != "v1":
            info = None if self._stored is None else self._stored.get("storageInfo")
            if isinstance(info, dict):
                try:
                    value = read_stored(
                        self._directory, info.get("path"), max_bytes=self._max_bytes
                    )
                except ProtocolError as error:
                    self.end("error", f"its result was not found: {error.message}")
                    return
            elif value is None:
                raise ProtocolError("it said 'done' without saying where its result is stored")
        self.end("", value=value)

    def _has_failed(self, message: Message) -> None:
        if self.is_stopping:
            # While stopping, only `stopped` ends the task.
            return
        error = message.error or {}
        self.end(
            "error",
            _text(error.get("message"), _MAX_MESSAGE) or "the algorithm gave no reason",
            code=_text(error.get("code"), _MAX_MESSAGE),
            details=_text(error.get("details"), _MAX_DETAILS),
        )

    def _progress(self, data: Any) -> None:
        fields = data if isinstance(data, dict) else {"progress": data}
        value, details = fields.get("progress"), _text(fields.get("details"), _MAX_MESSAGE)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            # Not a fraction from 0 to 1: reported as text.
            details = details or _text(value, _MAX_MESSAGE)
            value = None
        self._untold = value, details
        if self._loop.time() - self._told_at >= _PROGRESS_EVERY_S:
            self._tell()
        elif self._telling is None:
            self._telling = self._loop.call_later(_PROGRESS_EVERY_S, self._tell_late)

    def _tell_late(self) -> None:
        self._telling = None
        try:
            self._tell()
        except Exception as error:
            self.fail(error)

    def _tell(self) -> None:
        if self._untold is not None:
            (value, details), self._untold = self._untold, None
            self._told_at = self._loop.time()
            self._watcher.progress(self.work, value, details)


# Commands that are not allowed before `initialized`.
_ON_A_TASK = frozenset(("done", "storing", "progress", *COMMANDS))
_TOLD = {
    Stage.NEW: "of which it was told nothing",
    Stage.INITIALIZING: "before it said 'initialized'",
    Stage.INITIALIZED: "before it was told 'start'",
}


def _initialize(work: Work) -> dict[str, Any]:
    data: dict[str, Any] = {
        "input": list(work.input),
        "jobId": work.job_id,
        "taskId": work.task_id,
        "nodeName": work.node,
        "pipelineName": work.pipeline,
        "algorithmName": work.algorithm,
        "kind": "batch",
        "parents": list(work.parents),
        "childs": list(work.children),
        "info": {
            "savePaths": [],
            "extraData": {},
            "lastRunResult": None,
            "rootJobId": work.root_job_id or work.job_id,
        },
        # Inputs are always in the message, for every storage version.
        "flatInput": {},
        "storage": {},
    }
    if work.batch_index is not None:
        data["batchIndex"] = work.batch_index
    return data


def _text(value: Any, limit: int) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]} [...]"
