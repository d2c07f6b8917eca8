"""What engines say of runners that are their jobs, asked now and then."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tarmac.files import moment_after
from tarmac.jobs.executors import RunnerState, find_executor
from tarmac.jobs.runner_notes import is_marked, last_runner, runner_noted_at, runner_place

if TYPE_CHECKING:
    from pathlib import Path

# An engine has more to do than to answer this.
_ASKED_EVERY_S = 15.0


class RunnerWatch:
    """Asks engines for runners' jobs, for each at most every 15 seconds.

    An engine that has not answered is left alone for as long, whichever run it is asked for.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Path, int], tuple[float, RunnerState]] = {}
        self._silent: dict[str, tuple[float, RunnerState]] = {}

    def state_of(self, run: Path, executor: str) -> RunnerState | None:
        """Return what is known of a run's last runner job; None where there is none to ask for.

        Args:
            run: Directory of the run, with the notes on its runner jobs.
            executor: Where its tasks run, and its runners.
        """
        number = last_runner(run)
        if number is None:
            return None
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
    """Whether a runner job, at work on nothing now, is still to begin, for the first time or again.

    Args:
        run: Directory of the run, with the notes on its runner jobs.
        state: What is known of its last runner job.
    """
    number = last_runner(run)
    if state is None or number is None:
        return False
    if is_marked(run, number, "begun"):
        # One that runs has begun since the run was seen to be nobody's, or is about to once more.
        return state.kind in ("waits", "runs")
    return state.kind != "ended"
