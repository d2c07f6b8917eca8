"""The states of a run's tasks, and of the run itself, by one set of rules for all readers.

Lists, pages, `tarmac ps` and the monitor read states by these rules alone. A reader without a
runner to rely on looks at the records of the agents, and polls no engine.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from tarmac.jobs.journal import problem_of
from tarmac.node import AttemptRecord
from tarmac.tasks.run_files import directory_name

State = Literal["queued", "running", "detached", "succeeded", "failed", "skipped", "interrupted"]

ACTIVE: tuple[State, ...] = ("queued", "running")

# Last events of an attempt that waits in an engine's queue.
WAITS = ("queued", "waiting", "requeued")

# Keys of an attempt's events that do not apply to the next attempt.
_OF_AN_ATTEMPT = ("place", "host", "cpus", "gpus")

# Outcomes in an agent's record.
_OUTCOMES: Mapping[str | None, State] = {
    "succeeded": "succeeded",
    "failed": "failed",
    "interrupted": "interrupted",
}

# Returns the agent's record of an attempt, by the task's directory and the attempt's number; None
# without a readable record.
RecordReader = Callable[[Path, int], AttemptRecord | None]


@dataclasses.dataclass(frozen=True)
class TaskStatus:
    """A task that has begun, or was skipped.

    Attributes:
        index: Number of the task in the order of the file.
        name: Name of the task, unique in its job.
        state: State of the task: ``queued`` while an engine has not begun it; ``interrupted`` also
            for a task that ended because its runner was killed.
        attempt: Number of the last attempt, from 1; 0 where the task was skipped.
        exit_code: Exit code of the last attempt; None until it has ended.
        seconds: Duration of the last attempt in seconds; 0 until it has ended.
        reason: Why the task did not succeed, or what it waits for; for a running task, what delays
            it or why its state is unknown.
        directory: Directory of the task, with ``stdout``, ``stderr`` and ``work/``.
        is_shared: Whether the directory belongs to an algorithm's instance, which does one task
            after another.
        host: Host of the task; empty for this machine.
    """

    index: int
    name: str
    state: State
    attempt: int
    exit_code: int | None
    seconds: float
    reason: str
    directory: Path
    is_shared: bool = False
    host: str = ""


@dataclasses.dataclass
class TaskEvents:
    """The last facts of each task that has begun, from the events of a journal.

    Attributes:
        keeps_ended: Whether to keep all facts of ended tasks, not only their outcomes.
        active: Facts of each task without a recorded end, by task number.
        ended: Facts of each ended task, by task number.
        outcomes: Number of ended tasks, by outcome.
    """

    keeps_ended: bool = True
    active: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    ended: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    outcomes: Counter[State] = dataclasses.field(default_factory=Counter)

    def add(self, event: dict[str, Any]) -> None:
        """Add a valid event, as of `read_events`."""
        index, kind = event["task"], event["event"]
        before = self.ended.pop(index, None)
        if before is not None:
            self.outcomes[before["outcome"]] -= 1
        known = before or self.active.pop(index, {})
        if "retried" in (kind, known.get("event")) or before is not None:
            known = {key: value for key, value in known.items() if key not in _OF_AN_ATTEMPT}
        known.pop("reason", None)
        known |= event
        if "name" not in known:
            return
        if kind != "ended":
            self.active[index] = known
            return
        self.outcomes[known["outcome"]] += 1
        self.ended[index] = known if self.keeps_ended else {"outcome": known["outcome"]}

    def add_if_valid(self, value: Any) -> None:
        """Add the value of a journal's line; a damaged line is ignored."""
        if problem_of(value) is None:
            self.add(value)


def outlive_runner(active: Mapping[int, Any], executor: str) -> bool:
    """Return whether a run's active tasks outlive their runner; False without active tasks.

    Args:
        active: Facts of the active tasks, as in `TaskEvents`.
        executor: Name of the run's executor.
    """
    if not active or executor == "local":
        return False
    # The import of executors is slow, and lists seldom need them.
    from tarmac.executors import outlives_runner  # noqa: PLC0415

    return outlives_runner(executor)


def status_of_task(
    run: Path,
    facts: Mapping[str, Any],
    read_record: RecordReader | None,
    *,
    is_alive: bool,
    outlives: bool,
) -> TaskStatus:
    """Return the status of a task.

    Args:
        run: Directory of the run, which the task's directory is relative to.
        facts: Facts of the task in `TaskEvents`.
        read_record: Reads the record of an active attempt on a cluster. None: the journal is
            enough.
        is_alive: Whether the run has a runner.
        outlives: Whether the engine's tasks outlive their runner.
    """
    kind = facts["event"]
    has_ended = kind == "ended"
    own = f"tasks/{directory_name(facts['task'], facts['name'])}"
    is_waiting = kind in WAITS
    status = TaskStatus(
        index=facts["task"],
        name=facts["name"],
        state=facts["outcome"] if has_ended else "queued" if is_waiting else "running",
        attempt=facts.get("attempt", 0),
        exit_code=facts.get("exit_code") if has_ended else None,
        seconds=facts["seconds"] if has_ended else 0.0,
        reason=facts.get("reason", ""),
        directory=run / facts.get("directory", own),
        is_shared=facts.get("directory", own) != own,
        host="" if is_waiting else facts.get("host", ""),
    )
    if has_ended:
        return status
    # Only an engine's task outlives its runner, and its agent's record has its state.
    is_engines = is_waiting or "host" in facts or "place" in facts
    if is_engines and kind != "retried":
        record = read_record and read_record(status.directory, status.attempt)
        status = status if record is None else _as_its_agent_says(status, record)
        # Some engines end a runner's tasks with it, before the agents record that.
        is_over = not (is_alive or outlives) and status.state in ACTIVE
    else:
        is_over = not is_alive
    return dataclasses.replace(status, state="interrupted", reason="") if is_over else status


def _as_its_agent_says(status: TaskStatus, record: AttemptRecord) -> TaskStatus:
    # The runner gave a fenced attempt up, and no agent may claim it any more.
    state = "interrupted" if record.state == "fenced" else _OUTCOMES.get(record.outcome)
    if state is None:
        return dataclasses.replace(status, state="running", host=record.host)
    if state == "succeeded" and record.problems:
        state = "failed"
    return dataclasses.replace(
        status,
        state=state,
        exit_code=record.exit_code,
        seconds=record.seconds,
        reason=record.reason,
        host=record.host,
    )


def have_all_ended(states: Counter[State], num_tasks: int | None) -> bool:
    """Whether all tasks of a run have ended; see `state_of_run`."""
    is_active = any(states[state] for state in ACTIVE)
    return num_tasks is not None and states.total() >= num_tasks and not is_active


def state_of_run(states: Counter[State], num_tasks: int | None, outcome: str | None) -> State:
    """Return the state of a run without a runner.

    Args:
        states: Number of tasks that have begun or were skipped, by state.
        num_tasks: Number of all tasks; None where it is unknown.
        outcome: Recorded outcome of a pipeline; None without one.
    """
    if any(states[state] for state in ACTIVE):
        return "detached"
    if outcome is not None:
        return "succeeded" if outcome == "succeeded" else "failed"
    if not have_all_ended(states, num_tasks) or states["interrupted"]:
        return "interrupted"
    return "succeeded" if states["succeeded"] == states.total() else "failed"
