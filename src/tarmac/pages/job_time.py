"""The time of a job's tasks: at work, waiting for other tasks or for room, between attempts.

Example:
    >>> from tarmac.jobs import AttemptSpan
    >>> spent([AttemptSpan(began_at=5.0, ended_at=9.0, outcome="succeeded")], 2.0, until=20.0)
    Spent(work_s=4.0, room_s=3.0, between_s=0.0)
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tarmac.jobs import specs_of

if TYPE_CHECKING:
    from tarmac.jobs import AttemptSpan, Job, TaskStatus, Timeline

# A reference to a node's result: `@a.b`, `#@a`, and `*@a` for each task as it ends.
_REFERENCE = re.compile(r'"([*#]*)@([A-Za-z0-9_-]+)')


@dataclasses.dataclass(frozen=True)
class Spent:
    """A task's time, in seconds.

    Attributes:
        work_s: Seconds in attempts, including inputs and outputs.
        room_s: Seconds ready but not begun, for lack of room or in a queue. None if unknown.
        between_s: Seconds from the end of an attempt to the request for the next one.
    """

    work_s: float
    room_s: float | None
    between_s: float


@dataclasses.dataclass(frozen=True)
class SpecTime:
    """The time of all tasks of one name.

    Attributes:
        name: Name of the tasks without sweep parameters, or of a pipeline's node.
        count: Number of these tasks that have begun.
        attempts: Number of attempts of all these tasks.
        spent: Sums of the tasks' times, in seconds.
        longest_s: Longest time of a task at work, in seconds.
        longest_room_s: Longest wait of a task for room, in seconds. None if unknown.
        others_s: Seconds from the start of the run until the tasks could begin. None if unknown,
            or if all tasks were skipped.
    """

    name: str
    count: int
    attempts: int
    spent: Spent
    longest_s: float
    longest_room_s: float | None
    others_s: float | None


def spec_of(name: str) -> str:
    """Return a task's name before expansion: ``train`` for ``train[lr=0.1]`` and ``train#1``."""
    return re.split(r"[\[#]", name, maxsplit=1)[0] or name


def ends_of(timeline: Timeline) -> dict[str, float]:
    """Return the end of the last task of each name, in seconds since 1970."""
    ends: dict[str, float] = {}
    for trace in timeline.traces.values():
        if trace.last_event == "ended" and trace.last_at is not None:
            name = spec_of(trace.name)
            ends[name] = max(ends.get(name, trace.last_at), trace.last_at)
    return ends


def ready_times(timeline: Timeline, job: Job) -> dict[str, float]:
    """Return the earliest start of the tasks of each name, without names where it is unknown.

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
    """Return the needs of a pipeline's nodes, without nodes that have a ``*`` reference."""
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
    """Return a task's time at work, waiting for room and between attempts.

    Args:
        attempts: Attempts of the task, in order of time.
        ready_at: Earliest start of the task, in seconds since 1970. None if unknown.
        until: End of open attempts, in seconds since 1970.
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
    """Return the times of the tasks of each name, in the order of the file."""
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
    times = [spent(trace.attempts, ready.get(name), until=until) for trace in begun]
    rooms = [time.room_s for time in times if time.room_s is not None]
    is_known = len(rooms) == len(times)
    could_begin = any(task.state != "skipped" for task in tasks)
    return SpecTime(
        name=name,
        count=len(begun),
        attempts=sum(len(trace.attempts) for trace in begun),
        spent=Spent(
            sum(time.work_s for time in times),
            sum(rooms) if is_known else None,
            sum(time.between_s for time in times),
        ),
        longest_s=max((time.work_s for time in times), default=0.0),
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
    """Return the number of running attempts over time, as a step line in seconds from ``origin``.

    Args:
        attempts: Attempts to count, of any tasks, in any order.
        origin: Start of the line, in seconds since 1970.
        until: End of the line, in seconds since 1970.
        waiting: Whether to count queued attempts instead. Default False.
        size: Returns the weight of an attempt, such as its CPUs. Default: 1 for each attempt.
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
        # Two points make a vertical edge. Rounding removes the drift of sums of tenths.
        line.append((at - origin, count))
        count = round(count + changes[at], 6)
        line.append((at - origin, count))
    line.append((max(until - origin, line[-1][0]), count))
    return line
