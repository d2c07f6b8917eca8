"""Polls of engines for the states of runner jobs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.files import moment_after
from tarmac.tasks.runner_notes import is_marked, last_runner, runner_noted_at, runner_place

if TYPE_CHECKING:
    from tarmac.executors import RunnerState

# More frequent polls would load the engine.
_ASKED_EVERY_S = 15.0


class RunnerWatch:
    """A cache of runner jobs' states, which polls each job at most every 15 seconds.

    After no answer, an engine is not polled for 15 seconds, whichever run is looked up.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Path, int], tuple[float, RunnerState]] = {}
        self._silent: dict[str, tuple[float, RunnerState]] = {}

    def state_of(self, run: Path, executor: str) -> RunnerState | None:
        """Return the state of a run's last runner job; None where there is no job to poll.

        Args:
            run: Directory of the run, with the notes on its runner jobs.
            executor: Name of the executor of the run's tasks and runners.
        """
        number = last_runner(run)
        if number is None:
            return None
        # The import of executors is slow, and few runs have runner jobs.
        from tarmac.executors import find_executor  # noqa: PLC0415

        engine = find_executor(executor).runners
        if engine is None:
            return None
        known = self._known.get((run, number)), self._silent.get(executor)
        for asked_at, state in filter(None, known):
            if time.monotonic() < asked_at + _ASKED_EVERY_S:
                return state
        since = moment_after(runner_noted_at(run, number)) or datetime.now(UTC)
        state = engine.look(run, number, runner_place(run, number), since)
        self._known[run, number] = (time.monotonic(), state)
        if state.kind == "unknown":
            self._silent[executor] = self._known[run, number]
        return state


def is_to_begin(run: Path, state: RunnerState | None) -> bool:
    """Whether a runner job that works on nothing now will still begin, or begin again.

    Args:
        run: Directory of the run, with the notes on its runner jobs.
        state: State of the run's last runner job.
    """
    number = last_runner(run)
    if state is None or number is None:
        return False
    if is_marked(run, number, "begun"):
        # A running job began after the run was found unlocked, or is about to begin again.
        return state.kind in ("waits", "runs")
    return state.kind != "ended"
