"""Pipelines run by a host of plain functions, in the loop's own thread."""

from __future__ import annotations

import asyncio
import inspect

from tarmac.hkube.hosting import Ending
from tarmac.hkube.running import Silent


class Failed(Exception):  # noqa: N818 - named for what an algorithm says
    """What an algorithm raises to end in a particular way."""

    def __init__(self, why: str, message: str) -> None:
        super().__init__(message)
        self.why = why


class Functions:
    """A host whose algorithms are functions: of input, or of input, calls and work."""

    def __init__(self, functions, run, *, watcher, calls) -> None:
        self._functions = functions
        self._run = run
        self._watcher = watcher
        self._calls = calls
        self.most = 0
        self._tasks: set[asyncio.Task[Ending]] = set()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for task in [*self._tasks]:
            task.cancel()

    def submit(self, work):
        task = asyncio.ensure_future(self._work(work))
        self._tasks.add(task)
        self.most = max(self.most, len(self._tasks))
        task.add_done_callback(self._tasks.discard)
        return task

    async def _work(self, work) -> Ending:
        await asyncio.sleep(0)
        self._watcher.started(work, 1, self._run / "instances" / f"0000-{work.algorithm}", ())
        function = self._functions[work.algorithm]
        try:
            given = (work.input, self._calls, work)
            value = function(*given[: len(inspect.signature(function).parameters)])
            if inspect.isawaitable(value):
                value = await value
        except Failed as failed:
            return Ending(work=work, why=failed.why, message=str(failed), attempts=1)
        return Ending(work=work, value=value, attempts=1)


class Log(Silent):
    """Notes what ended how, and what was not done again."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def ended(self, ending) -> None:
        self.lines.append(f"{ending.why or 'done'} {ending.work.name}")

    def repeated(self, name) -> None:
        self.lines.append(f"before {name}")


def body(*nodes, **fields):
    """Return a pipeline's body of nodes ``(name, algorithm, input)``."""
    made = [
        {"nodeName": name, "algorithmName": algorithm, "input": given, **more}
        for name, algorithm, given, *rest in nodes
        for more in (rest[0] if rest else {},)
    ]
    return {"name": "p", "nodes": made, **fields}
