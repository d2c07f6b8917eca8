"""The failures and retries of a job, with equal ones grouped, and their causes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from tarmac.masking import masked_text
from tarmac.pages.components import details, table
from tarmac.pages.job_time import spec_of
from tarmac.pages.log_end import known_failures, log_end
from tarmac.pages.numbers import worded

if TYPE_CHECKING:
    from tarmac.jobs import AttemptSpan, TaskStatus, Timeline

# Groups of failures to show. One task's logs are read for each.
_MAX_GROUPS = 12
_MAX_NAMES = 5
_LOG_LINES = 15


@dataclasses.dataclass(frozen=True)
class Failures:
    """Tasks of one name that failed or were interrupted for the same reason.

    Attributes:
        name: Name of the tasks without sweep parameters.
        state: State of the tasks, ``failed`` or ``interrupted``.
        reason: Reason for the failure, in words.
        cause: Cause in the journal. Empty if unknown.
        tasks: Tasks in the order of the file.
    """

    name: str
    state: str
    reason: str
    cause: str
    tasks: Sequence[TaskStatus]


def failed_groups(timeline: Timeline) -> list[Failures]:
    """Return the groups of failed, then of interrupted tasks, the largest group first."""
    groups: dict[tuple[str, str, str, str], list[TaskStatus]] = {}
    for task in timeline.status.tasks:
        if task.state in ("failed", "interrupted"):
            attempts = timeline.trace_of(task).attempts
            cause = attempts[-1].cause if attempts else ""
            groups.setdefault((spec_of(task.name), task.state, task.reason, cause), []).append(task)
    failures = [Failures(*key, tasks=tasks) for key, tasks in groups.items()]
    return sorted(failures, key=lambda group: (group.state != "failed", -len(group.tasks)))


def failures_body(run: Path, timeline: Timeline, groups: Sequence[Failures]) -> Markup:
    """Return each group of failures: number of tasks, reason, known fixes, the end of a log."""
    body = Markup("").join(
        _group(run, f"failure-{number}", group, timeline)
        for number, group in enumerate(groups[:_MAX_GROUPS])
    )
    if left := groups[_MAX_GROUPS:]:
        count = sum(len(group.tasks) for group in left)
        body += Markup("<p>{:,} more tasks in {:,} other ways.</p>").format(count, len(left))
    return body


def retries_body(timeline: Timeline) -> Markup | None:
    """Return a table of attempts that were retried, or None if there are none."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    lost_s: Counter[tuple[str, str, str, str]] = Counter()
    for name, attempt in _followed(timeline):
        key = (spec_of(name), attempt.outcome, attempt.cause, attempt.reason)
        counts[key] += 1
        if attempt.began_at is not None and attempt.ended_at is not None:
            # Milliseconds, since the values of a Counter are integers.
            lost_s[key] += round((attempt.ended_at - attempt.began_at) * 1000)
    if not counts:
        return None
    rows = [
        [
            key[0],
            f"{count:,}",
            key[1],
            key[2] or "-",
            masked_text(key[3]) or "-",
            worded(lost_s[key] / 1000, "s") if key in lost_s else "-",
        ]
        for key, count in counts.most_common(_MAX_GROUPS)
    ]
    columns = ["task", "attempts", "ended", "cause", "reason", "time they took"]
    return table(columns, rows, label="Attempts that another one followed", numbers=(1, 5))


def _followed(timeline: Timeline) -> Iterator[tuple[str, AttemptSpan]]:
    for trace in timeline.traces.values():
        for attempt in trace.attempts[:-1]:
            yield trace.name, attempt


def _group(run: Path, key: str, group: Failures, timeline: Timeline) -> Markup:
    first, *_ = group.tasks
    names = ", ".join(task.name for task in group.tasks[:_MAX_NAMES])
    more = len(group.tasks) - _MAX_NAMES
    tried = len(timeline.trace_of(first).attempts)
    head = first.name if len(group.tasks) == 1 else f"{len(group.tasks):,} tasks of {group.name}"
    words = [masked_text(group.reason) or group.state]
    words += [f"cause: {group.cause}"] if group.cause and group.cause != group.reason else []
    words += [f"on {first.host}"] if first.host and len(group.tasks) == 1 else []
    words += [f"{tried} attempts" + (" of the first" if len(group.tasks) > 1 else "")] * (tried > 1)
    body = Markup("<h3>{}</h3><p>{}</p>").format(head, "; ".join(words))
    if len(group.tasks) > 1:
        body += Markup('<p class="note">{}{}</p>').format(
            names, f" and {more:,} more" if more > 0 else ""
        )
    body += known_failures(key, first.directory, run)
    if log := log_end(first.directory, _LOG_LINES, run):
        body += details(f"{key}-log", f"What {first.name} has printed last", log)
    return body
