"""Tasks that end while the disk is waited for are recorded together, before anybody knows."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.hkube.hosting import Ending, Work
from tarmac.hkube.running.history import open_history
from tarmac.hkube.running.tasks import Tasks


class Host:
    """A host whose tasks end when a test says so."""

    def __init__(self) -> None:
        self.hosted: dict[str, asyncio.Future[Ending]] = {}

    def submit(self, work: Work) -> asyncio.Future[Ending]:
        self.hosted[work.name] = asyncio.get_running_loop().create_future()
        return self.hosted[work.name]


class Observer:
    """Notes the tasks whose end it is told."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def ended(self, ending: Ending) -> None:
        self.names.append(ending.work.name)


class Recorded:
    """A history that notes which tasks are recorded together."""

    def __init__(self, history) -> None:
        self.history = history
        self.batches: list[list[str]] = []

    def ended(self, endings):
        self.batches.append([ending.work.name for ending, _ in endings])
        return self.history.ended(endings)


def work(index: int) -> Work:
    names = {"name": f"task-{index}", "job_id": "x", "pipeline": "p", "node": "n"}
    return Work(index=index, task_id=f"{index}", algorithm="a", input=[], **names)


def on_tasks(tmp_path, drive):
    """Drive four submitted tasks; return what was recorded together, and the observer."""

    async def main():
        with open_history(tmp_path, keeps_failures=False) as history:
            recorded, observer = Recorded(history), Observer()
            tasks = Tasks(tmp_path, recorded, observer)
            tasks.host = Host()
            futures = [tasks.submit(work(index), f"digest-{index}") for index in range(4)]
            await drive(tasks, [*tasks.host.hosted.values()], futures)
            return recorded.batches, observer

    return asyncio.run(main())


def test_what_ends_while_the_disk_is_waited_for_is_recorded_together(tmp_path, monkeypatch):
    # Longer than any test: only the end of the run lets the others be recorded.
    monkeypatch.setattr("tarmac.hkube.running.tasks._PAUSE_PER_WAIT", 1e9)

    async def drive(tasks, hosted, futures):
        for index in range(3):
            hosted[index].set_result(Ending(work=work(index), value=index))
        assert (await futures[0]).value == 0
        assert [future.done() for future in futures] == [True, False, False, False]
        tasks.record_at_once()
        assert [(await future).value for future in futures[1:3]] == [1, 2]
        # The run is over: each is recorded as it ends.
        hosted[3].cancel()
        with pytest.raises(asyncio.CancelledError):
            await futures[3]

    batches, observer = on_tasks(tmp_path, drive)
    assert batches == [["task-0"], ["task-1", "task-2"], ["task-3"]]
    assert observer.names == [f"task-{index}" for index in range(4)]


def test_an_error_of_the_host_loses_no_task_that_ended_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr("tarmac.hkube.running.tasks._PAUSE_PER_WAIT", 1e9)

    async def drive(tasks, hosted, futures):
        hosted[0].set_result(Ending(work=work(0), value=0))
        hosted[1].set_exception(OSError("broken"))
        hosted[2].set_result(Ending(work=work(2), value=2))
        await futures[0]
        tasks.record_at_once()
        with pytest.raises(OSError, match="broken"):
            await tasks.broken
        assert futures[1].cancelled()

    batches, _ = on_tasks(tmp_path, drive)
    assert batches == [["task-0"], ["task-2"]]
