"""A host of one client, whose tasks are said by what they are to do."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from tarmac.formats import read_algorithm
from tarmac.hkube.hosting import Ending, Pool, Timers, Work


class Watcher:
    """Notes attempts and progress."""

    def __init__(self) -> None:
        self.attempts: list[tuple[str, int]] = []
        self.retries: list[str] = []

    def started(self, work, attempt, directory, gpus) -> None:
        self.attempts.append((work.name, attempt))

    def progress(self, work, value, details) -> None:
        pass

    def retrying(self, work, reason, delay_s) -> None:
        self.retries.append(reason)

    def waiting(self, work, reason) -> None:
        pass


@dataclasses.dataclass
class Hosted:
    """A pool with one algorithm, ``tried``.

    Attributes:
        pool: The pool.
        watcher: What it has told.
        pipelines: Results of the pipelines that algorithms may start, by name.
    """

    pool: Pool
    watcher: Watcher
    pipelines: dict[str, Any] = dataclasses.field(default_factory=dict)
    _numbers: Any = dataclasses.field(default_factory=itertools.count)

    async def do(self, action: str, *arguments: Any, **changes: Any) -> Ending:
        """Have a task done: what, with which arguments."""
        return await self.pool.submit(self.work([action, *arguments], **changes))

    def work(self, given: list[Any], **changes: Any) -> Work:
        number = next(self._numbers)
        fields = {
            "index": number,
            "name": f"task-{number}",
            "task_id": f"id-{number}",
            "algorithm": "tried",
            "input": given,
            "job_id": "job-1",
            "pipeline": "pipe",
            "node": "node",
        }
        return Work(**(fields | changes))

    async def run_algorithm(self, caller, algorithm, inputs) -> Ending:
        return await self.pool.submit(self.work([*inputs], algorithm=algorithm, caller=caller))

    async def run_pipeline(self, caller, body) -> Any:
        return [{"nodeName": "last", "result": [body["name"], body["flowInput"]]}]


def definition_of(client, **environment: str) -> dict[str, Any]:
    """Return the definition of the algorithm ``tried`` that a client is."""
    return {
        "name": "tried",
        "cpu": 0.1,
        "mem": "2Gi",
        "algorithmEnv": {**client.environment, **environment},
        "options": {"tarmac": {"command": [*client.command]}},
    }


@contextlib.asynccontextmanager
async def hosting(
    client,
    directory: Path,
    *,
    encoding: str = "",
    storage: str = "",
    others: Mapping[str, Mapping[str, Any]] | None = None,
    timers: Timers | None = None,
) -> AsyncIterator[Hosted]:
    """Host a client as the algorithm ``tried``.

    Args:
        client: Of the fixture ``client_of``.
        directory: For the run.
        encoding: That it is told to use; by default its own.
        storage: Likewise.
        others: Definitions of other algorithms, by name.
        timers: Of the pool.
    """
    asked = {"WORKER_ALGORITHM_ENCODING": encoding, "STORAGE_PROTOCOL": storage}
    own = definition_of(client, **{key: value for key, value in asked.items() if value})
    algorithms = {
        name: read_algorithm(given) for name, given in {"tried": own, **(others or {})}.items()
    }
    watcher = Watcher()
    hosted = Hosted(None, watcher)  # type: ignore[arg-type]
    run = directory / "run"
    run.mkdir(exist_ok=True)
    async with Pool(
        algorithms, run, base=directory, watcher=watcher, calls=hosted, timers=timers
    ) as hosted.pool:
        yield hosted
