"""Where a job's time went: at work, waiting for other tasks, for room, and between attempts.

Example:
    >>> from tarmac.jobs import AttemptSpan
    >>> spent([AttemptSpan(began_at=5.0, ended_at=9.0, outcome="succeeded")], 2.0, until=20.0)
    Spent(work_s=4.0, room_s=3.0, between_s=0.0)
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any

from tarmac.jobs import specs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tarmac.jobs import AttemptSpan, Job, TaskStatus, Timeline

# A text in a node's input that stands for another node's result: `@a.b`, `#@a` and, of any, `*@a`.
_REFERENCE = re.compile(r'"([*#]*)@([A-Za-z0-9_-]+)')


@dataclasses.dataclass(frozen=True)
class Spent:
    """A task's time, in seconds.

    Attributes:
        work_s: In its attempts, with their inputs and outputs.
        room_s: Ready and not begun: no room, in a queue; None where it is not known when it was
            ready.
        between_s: From the end of an attempt until the next one was asked for.
    """

    work_s: float
    room_s: float | None
    between_s: float


@dataclasses.dataclass(frozen=True)
class SpecTime:
    """The time of all tasks of one name.

    Attributes:
        name: What the tasks were expanded from, or a pipeline's node.
        count: How many have begun.
        attempts: Number of attempts of all these tasks.
        spent: Sums of the tasks' times, in seconds.
        longest_s: The longest of them was at work.
        longest_room_s: The longest that one waited for room.
        others_s: From the beginning of the run until they could begin; None where not known, or
            where none of them ever could.
    """

    name: str
    count: int
    attempts: int
    spent: Spent
    longest_s: float
    longest_room_s: float | None
    others_s: float | None


def spec_of(name: str) -> str:
    """Return what a task was expanded from: ``train`` of ``train[lr=0.1]`` and ``train#1``."""
    return re.split(r"[\[#]", name, maxsplit=1)[0] or name


def ends_of(timeline: Timeline) -> dict[str, float]:
    """Return when the last task of each name ended."""
    ends: dict[str, float] = {}
    for trace in timeline.traces.values():
        if trace.last_event == "ended" and trace.last_at is not None:
            name = spec_of(trace.name)
            ends[name] = max(ends.get(name, trace.last_at), trace.last_at)
    return ends


def ready_times(timeline: Timeline, job: Job) -> dict[str, float]:
    """Return when the tasks of each name could begin; those of which that is not known are not in.

    Args:
        timeline: Timeline of the run, with the ends of its tasks.
        job: Job or pipeline that the run executes.
    """
    ends = ends_of(timeline)
    needs = _spec_needs(job, [*ends]) if job.pipeline is None else _node_needs(job.pipeline)
    return {
        name: max([timeline.began_at, *(ends[other] for other in others)])
        for name, others in needs.items()
        if all(other in ends for other in others)
    }


def _spec_needs(job: Job, names: Sequence[str]) -> dict[str, Sequence[str]]:
    needs: dict[str, Sequence[str]] = {}
    for spec in specs_of(job):
        is_last = job.after_all is not None and spec.name == job.after_all.name
        others = [name for name in names if name != spec.name]
        needs[spec.name] = others if is_last else spec.needs
    return needs


def _node_needs(pipeline: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return which nodes of a pipeline wait for all of which others, but those that take any."""
    needs: dict[str, Sequence[str]] = {}
    nodes = pipeline.get("nodes")
    for node in nodes if isinstance(nodes, list) else ():
        name = node.get("nodeName") if isinstance(node, dict) else None
        text = json.dumps(node.get("input", [])) if name is not None else ""
        references = _REFERENCE.findall(text)
        if name is not None and not any("*" in marks for marks, _ in references):
            needs[str(name)] = [other for _, other in references if other != "flowInput"]
    return needs


def spent(attempts: Sequence[AttemptSpan], ready_at: float | None, *, until: float) -> Spent:
    """Return where a task's time went.

    Args:
        attempts: Attempts of the task, in order of time.
        ready_at: When it could begin; None where that is not known.
        until: The end of what is looked at.
    """
    work, room, between = 0.0, 0.0, 0.0
    is_known = True
    free_at = ready_at
    for number, attempt in enumerate(attempts):
        asked_at = attempt.queued_at
        if number and free_at is not None and (asked_at or attempt.began_at) is not None:
            between += max(0.0, (asked_at or attempt.began_at or free_at) - free_at)
        since = asked_at if asked_at is not None else free_at if not number else attempt.began_at
        begun = (
            attempt.began_at
            if attempt.began_at is not None
            else (until if attempt.is_open else None)
        )
        if since is None or begun is None:
            is_known = False
        else:
            room += max(0.0, begun - since)
        if attempt.began_at is not None:
            end = (
                attempt.ended_at
                if attempt.ended_at is not None
                else until
                if attempt.is_open
                else None
            )
            work += max(0.0, end - attempt.began_at) if end is not None else 0.0
        free_at = attempt.ended_at
    return Spent(work, room if is_known else None, between)


def spec_times(timeline: Timeline, ready: Mapping[str, float], until: float) -> list[SpecTime]:
    """Add up the tasks of each name, in the order of the file."""
    groups: dict[str, list[TaskStatus]] = {}
    for task in timeline.status.tasks:
        groups.setdefault(spec_of(task.name), []).append(task)
    return [_spec_time(name, tasks, timeline, ready, until) for name, tasks in groups.items()]


def _spec_time(
    name: str,
    tasks: Sequence[TaskStatus],
    timeline: Timeline,
    ready: Mapping[str, float],
    until: float,
) -> SpecTime:
    begun = [trace for trace in map(timeline.trace_of, tasks) if trace.attempts]
    each = [spent(trace.attempts, ready.get(name), until=until) for trace in begun]
    rooms = [time.room_s for time in each if time.room_s is not None]
    is_known = len(rooms) == len(each)
    could_begin = any(task.state != "skipped" for task in tasks)
    return SpecTime(
        name=name,
        count=len(begun),
        attempts=sum(len(trace.attempts) for trace in begun),
        spent=Spent(
            sum(time.work_s for time in each),
            sum(rooms) if is_known else None,
            sum(time.between_s for time in each),
        ),
        longest_s=max((time.work_s for time in each), default=0.0),
        longest_room_s=max(rooms, default=0.0) if is_known else None,
        others_s=ready[name] - timeline.began_at if name in ready and could_begin else None,
    )


def at_work(
    attempts: Iterable[AttemptSpan],
    origin: float,
    until: float,
    *,
    waiting: bool = False,
    size: Callable[[AttemptSpan], float] = lambda _: 1.0,
) -> list[tuple[float, float | None]]:
    """Return how many attempts were at work, as a line of steps from change to change.

    Args:
        attempts: Attempts to count, of any tasks, in any order.
        origin: What times are counted from, in seconds since 1970.
        until: The end, of the same kind.
        waiting: How many were in a queue instead.
        size: What each counts for: one, or what it was given.
    """
    changes: dict[float, float] = {}
    for attempt in attempts:
        start = attempt.queued_at if waiting else attempt.began_at
        end = attempt.began_at if waiting else attempt.ended_at
        if start is None or (end is None and not attempt.is_open):
            continue
        changes[start] = changes.get(start, 0.0) + size(attempt)
        if end is not None:
            changes[end] = changes.get(end, 0.0) - size(attempt)
    line: list[tuple[float, float | None]] = [(0.0, 0.0)]
    count = 0.0
    for at in sorted(changes):
        # Upright edges: the value until then, and the value from then on. Sums of tenths drift.
        line.append((at - origin, count))
        count = round(count + changes[at], 6)
        line.append((at - origin, count))
    line.append((max(until - origin, line[-1][0]), count))
    return line
