"""The calls of an algorithm during a task: other algorithms and pipelines.

Source: kube-HPC/hkube at 261d3d06, core/worker/lib/code-api.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from tarmac.errors import TarmacError
from tarmac.hkube.hosting.interface import Calls, Work
from tarmac.hkube.protocol import Message, ProtocolError, read_stored

COMMANDS = frozenset(
    {
        "startAlgorithmExecution",
        "stopAlgorithmExecution",
        "startRawSubPipeline",
        "startStoredSubPipeline",
        "stopSubPipeline",
    }
)

# Bound on concurrent calls, because each takes memory of the host.
_MAX_UNDER_WAY = 10_000


class Executions:
    """The calls of one task.

    Args:
        work: Task whose algorithm makes the calls.
        calls: Runs the algorithms and pipelines that the algorithm starts.
        send: Function that sends an answer to the algorithm.
        on_error: Function that gets an error that is no answer to a call, such as a defect or a
            full disk.
        storage: Directory of the storage, for inputs by ``v3``.
        max_bytes: Largest input in the storage, in bytes.
    """

    def __init__(
        self,
        work: Work,
        calls: Calls,
        send: Callable[[Message], Awaitable[None]],
        *,
        on_error: Callable[[Exception], None],
        storage: Path,
        max_bytes: int,
    ) -> None:
        self._work = work
        self._calls = calls
        self._send = send
        self._on_error = on_error
        self._storage = storage
        self._max_bytes = max_bytes
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def heard(self, message: Message) -> None:
        """Handle a message of `COMMANDS`; answer its errors as HKube's worker does."""
        data = message.data if isinstance(message.data, dict) else {}
        is_pipeline = message.command.endswith("SubPipeline")
        kind = "subPipelineId" if is_pipeline else "execId"
        identity = data.get(kind)
        if not isinstance(identity, str) or not identity:
            await self._fail(kind, None, f"data should have required property '{kind}'")
        elif message.command.startswith("stop"):
            await self._stop(kind, identity, str(data.get("reason") or ""))
        elif (kind, identity) in self._under_way:
            await self._fail(kind, identity, f"execution {identity} already running")
        elif len(self._under_way) >= _MAX_UNDER_WAY:
            await self._fail(kind, identity, f"{_MAX_UNDER_WAY} executions are under way already")
        else:
            run = self._run_pipeline if is_pipeline else self._run_algorithm
            task = asyncio.get_running_loop().create_task(self._answer(kind, identity, data, run))
            self._under_way[kind, identity] = task

    def close(self) -> None:
        """Cancel all running calls, because their caller has ended."""
        for task in self._under_way.values():
            task.cancel()
        self._under_way.clear()

    async def _answer(
        self,
        kind: str,
        identity: str,
        data: Mapping[str, Any],
        run: Callable[[str, Mapping[str, Any]], Coroutine[Any, Any, Any]],
    ) -> None:
        try:
            response = await run(identity, data)
            command = "algorithmExecutionDone" if kind == "execId" else "subPipelineDone"
            # The answer is being sent, so the algorithm may reuse the ID.
            self._under_way.pop((kind, identity), None)
            if data.get("includeResult") is False:
                response = None
            await self._send(Message(command, {kind: identity, "response": response}))
        except TarmacError as error:
            self._under_way.pop((kind, identity), None)
            await self._fail(kind, identity, error.message)
        except Exception as error:
            self._on_error(error)

    async def _run_algorithm(self, _identity: str, data: Mapping[str, Any]) -> Any:
        name = data.get("algorithmName")
        if not isinstance(name, str) or not name:
            raise ProtocolError("data should have required property 'algorithmName'")
        ending = await self._calls.run_algorithm(self._work, name, self._inputs(data))
        if not ending.succeeded:
            raise TarmacError(ending.message or f"algorithm {name} has failed")
        return ending.value

    async def _run_pipeline(self, identity: str, data: Mapping[str, Any]) -> Any:
        body = data.get("subPipeline")
        if not isinstance(body, dict):
            raise ProtocolError("data should have required property 'subPipeline'")
        await self._send(Message("subPipelineStarted", {"subPipelineId": identity}))
        return await self._calls.run_pipeline(self._work, body)

    def _inputs(self, data: Mapping[str, Any]) -> list[Any]:
        inputs = data.get("input", [])
        stored = data.get("storageInput")
        if stored is None:
            if not isinstance(inputs, list):
                raise ProtocolError("data.input should be array")
            return inputs
        places = data.get("storage")
        if not isinstance(stored, list) or not isinstance(places, dict):
            raise ProtocolError("data.storageInput should be array, and data.storage object")
        return [self._stored(item, places) for item in stored]

    def _stored(self, value: Any, places: Mapping[str, Any]) -> Any:
        if not isinstance(value, str) or not value.startswith("$$"):
            return value
        place = places.get(value[2:])
        info = place.get("storageInfo") if isinstance(place, dict) else None
        if not isinstance(info, dict):
            raise ProtocolError(f"data.storage has no storageInfo for {value!r}")
        return read_stored(self._storage, info.get("path"), max_bytes=self._max_bytes)

    async def _stop(self, kind: str, identity: str, reason: str) -> None:
        task = self._under_way.pop((kind, identity), None)
        if task is None:
            problem = (
                "unable to find execId"
                if kind == "execId"
                else "cannot stop subPipeline - not found:"
            )
            await self._fail(kind, identity, f"{problem} {identity}")
            return
        task.cancel()
        reason = f"stopped by algorithm: {reason}".rstrip(": ")
        if kind == "execId":
            await self._fail(kind, identity, reason)
        else:
            await self._send(Message("subPipelineStopped", {kind: identity, "reason": reason}))

    async def _fail(self, kind: str, identity: str | None, error: str) -> None:
        command = "algorithmExecutionError" if kind == "execId" else "subPipelineError"
        await self._send(Message(command, {kind: identity, "error": error}))
