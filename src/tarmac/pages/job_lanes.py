"""A job's tasks on a timeline: a lane for each of a few tasks, and folded lanes for the rest."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from tarmac.masking import masked_text
from tarmac.pages.job_time import at_work, spec_of
from tarmac.pages.lanes import Lane, Span, lanes
from tarmac.pages.numbers import worded
from tarmac.pages.plots import Series, line_plot
from tarmac.pages.scales import Axis

if TYPE_CHECKING:
    from tarmac.jobs import AttemptSpan, TaskStatus, Timeline

# More lanes are not readable.
MAX_LANES = 40
# Fewest tasks with a lane of their own in each group of equal tasks. The rest is folded.
_LEAST_OF_A_GROUP = 2
_MAX_DEVICES = 64
# Limit for the blocks of all device lanes together. More blocks are too thin to see.
_MAX_BLOCKS = 2000

# Styles of an attempt's or a task's state.
STATES = {
    "succeeded": "ok",
    "failed": "bad",
    "disturbed": "warn",
    "interrupted": "warn",
    "turn over": "plain",
    "running": "busy",
    "queued": "wait",
    "skipped": "plain",
}
_LEGEND = (
    ("succeeded", "ok"),
    ("failed", "bad"),
    ("disturbed or interrupted", "warn"),
    ("at work", "busy"),
    ("waits", "wait"),
)
# Order of the lanes. States that need attention come first.
_RANK = {"failed": 0, "interrupted": 1, "running": 2, "queued": 4, "succeeded": 5, "skipped": 6}
_RETRIED_RANK = 3


@dataclasses.dataclass(frozen=True)
class Fold:
    """Tasks that share a lane, with the same name and state."""

    name: str
    state: str
    tasks: Sequence[TaskStatus]


def folded(
    timeline: Timeline, most: int = MAX_LANES
) -> tuple[Sequence[TaskStatus], Sequence[Fold]]:
    """Return the tasks with a lane of their own, and the rest folded by name and state.

    Up to ``most`` tasks all have their own lane, in the order of the file. With more tasks, failed
    ones come first, then interrupted, running and retried ones, a few from each group of equals.
    """
    tasks = timeline.status.tasks
    if len(tasks) <= most:
        return tasks, ()
    groups: dict[tuple[int, str, str, str], list[TaskStatus]] = {}
    for task in tasks:
        is_retried = len(timeline.trace_of(task).attempts) > 1
        rank = _RANK.get(task.state, 4)
        rank = min(rank, _RETRIED_RANK) if is_retried else rank
        reason = task.reason if rank <= 1 else ""
        groups.setdefault((rank, spec_of(task.name), task.state, reason), []).append(task)
    ordered = sorted(groups.items(), key=lambda item: item[0][0])
    notable = [members for (rank, *_), members in ordered if rank <= _RETRIED_RANK]
    per_group = max(_LEAST_OF_A_GROUP, most // max(1, len(notable)))
    own = [task for members in notable for task in members[:per_group]][:most]
    chosen = {task.index for task in own}
    rest: dict[tuple[str, str], list[TaskStatus]] = {}
    for (_, name, state, _), members in ordered:
        left = [task for task in members if task.index not in chosen]
        if left:
            rest.setdefault((name, state), []).extend(left)
    folds = [Fold(name, state, members) for (name, state), members in rest.items()]
    if len(folds) > most:
        folds.sort(key=lambda fold: len(fold.tasks), reverse=True)
        others = [task for fold in folds[most - 1 :] for task in fold.tasks]
        folds = [*folds[: most - 1], Fold("others", "", others)]
    return own, folds


def task_lanes(key: str, timeline: Timeline, ready: Mapping[str, float], until: float) -> Markup:
    """Draw the tasks of a run, as `folded` chooses them.

    Args:
        key: ID of the figure, unique in the page.
        timeline: Timeline of the run, with its tasks and their attempts.
        ready: Earliest start of the tasks of each name, in seconds since 1970.
        until: End of the plot, in seconds since 1970.
    """
    own, folds = folded(timeline)
    rows = [
        Lane(task.name, spans=_spans(task, timeline, ready.get(spec_of(task.name)), until))
        for task in own
    ]
    rows += [_fold_lane(fold, timeline, until) for fold in folds]
    return lanes(
        key,
        "",
        rows,
        x=_axis(timeline, until),
        beside=True,
        height=18 if len(rows) > 12 else 24,
        legend=_LEGEND,
    )


def one_task_lanes(
    key: str, task: TaskStatus, timeline: Timeline, ready_at: float | None, until: float
) -> Markup:
    """Draw the attempts of one task; see `task_lanes`."""
    row = Lane(task.name, spans=_spans(task, timeline, ready_at, until))
    return lanes(key, "", [row], x=_axis(timeline, until), height=32, legend=_LEGEND)


def load_plot(key: str, timeline: Timeline, until: float) -> Markup:
    """Draw the numbers of running and of queued tasks over time."""
    attempts = [span for trace in timeline.traces.values() for span in trace.attempts]
    series = [Series("at work", at_work(attempts, timeline.began_at, until), "step")]
    if any(span.queued_at is not None for span in attempts):
        queued = at_work(attempts, timeline.began_at, until, waiting=True)
        series.append(Series("in a queue", queued, "step"))
    return line_plot(
        key,
        "Tasks at once",
        series,
        x=_axis(timeline, until),
        y=Axis("tasks", low=0.0, is_whole=True),
        height=160,
    )


def device_lanes(key: str, timeline: Timeline, until: float) -> Markup | None:
    """Draw the tasks on each GPU and the CPUs in use on each host; None if nothing is known.

    Args:
        key: ID of the figure, unique in the page.
        timeline: Timeline of the run, with its tasks and their attempts.
        until: End of the plot, in seconds since 1970.
    """
    gpus: dict[tuple[str, str], list[Span]] = {}
    hosts: dict[str, list[AttemptSpan]] = {}
    for trace in timeline.traces.values():
        for attempt in trace.attempts:
            span = _work_span(trace.name, attempt, timeline.began_at, until)
            if attempt.began_at is None or span is None:
                continue
            hosts.setdefault(attempt.host, []).append(attempt)
            for gpu in attempt.gpus:
                gpus.setdefault((attempt.host, gpu), []).append(span)
    shown = sorted(gpus.items())[:_MAX_DEVICES]
    most = _MAX_BLOCKS // max(1, len(shown))
    rows = [
        Lane(" ".join(filter(None, (host, _short(gpu)))), spans=joined(spans, most))
        for (host, gpu), spans in shown
    ]
    for host, attempts in sorted(hosts.items())[:_MAX_DEVICES]:
        name = host or "this machine"
        if any(attempt.cpus for attempt in attempts):
            cpus = at_work(attempts, timeline.began_at, until, size=lambda span: span.cpus or 0.0)
            rows.append(Lane(name, values=cpus, note="CPUs given"))
        elif host:
            line = at_work(attempts, timeline.began_at, until)
            rows.append(Lane(name, values=line, note="tasks at once"))
    if not rows:
        return None
    legend = _LEGEND if shown else ()
    return lanes(key, "", rows, x=_axis(timeline, until), beside=True, height=24, legend=legend)


def joined(spans: Sequence[Span], most: int) -> Sequence[Span]:
    """Return spans joined into fewer blocks that are wide enough to be seen.

    Args:
        spans: Blocks to join, in any order.
        most: Approximate limit for the number of blocks. Fewer spans are returned unchanged.
    """
    if len(spans) <= most:
        return spans
    ordered = sorted(spans, key=lambda span: span.start)
    width = (max(span.end for span in ordered) - ordered[0].start) / most
    blocks: list[Span] = []
    part: list[Span] = []
    for span in ordered:
        if part and span.start >= part[0].start + width:
            blocks.append(_one_of(part))
            part = []
        part.append(span)
    return [*blocks, _one_of(part)]


def _one_of(spans: Sequence[Span]) -> Span:
    """Return one block for several; the state is ``warn`` if their states differ."""
    if len(spans) == 1:
        return spans[0]
    counts = Counter(span.state for span in spans)
    words = [f"{counts[state]:,} {name}" for name, state in _LEGEND if counts[state]]
    state = spans[0].state if len(counts) == 1 else "warn"
    end = max(span.end for span in spans)
    return Span(spans[0].start, end, f"{len(spans):,} attempts: {', '.join(words)}", state)


def _axis(timeline: Timeline, until: float) -> Axis:
    end = max(until - timeline.began_at, 0.001)
    return Axis("since the run was made", unit="s", low=0.0, high=end)


def _fold_lane(fold: Fold, timeline: Timeline, until: float) -> Lane:
    attempts = [span for task in fold.tasks for span in timeline.trace_of(task).attempts]
    words = f"{len(fold.tasks):,} {fold.state}".strip()
    return Lane(fold.name, values=at_work(attempts, timeline.began_at, until), note=words)


def _spans(
    task: TaskStatus, timeline: Timeline, ready_at: float | None, until: float
) -> list[Span]:
    spans: list[Span] = []
    free_at = ready_at
    attempts = timeline.trace_of(task).attempts
    for attempt in attempts:
        since = attempt.queued_at if attempt.queued_at is not None else free_at
        begun = attempt.began_at
        if begun is None and attempt.is_open:
            begun = until
        if since is not None and begun is not None and begun > since:
            why = masked_text(attempt.reason) if attempt.outcome == "queued" else ""
            text = f"{task.name} waited {worded(begun - since, 's')}"
            spans.append(
                Span(
                    since - timeline.began_at,
                    begun - timeline.began_at,
                    f"{text}: {why}" if why else text,
                    "wait",
                )
            )
        span = _work_span(task.name, attempt, timeline.began_at, until)
        if span is not None:
            label = str(attempt.number) if len(attempts) > 1 else ""
            spans.append(dataclasses.replace(span, label=label))
        free_at = attempt.ended_at
    return spans


def _work_span(name: str, attempt: AttemptSpan, origin: float, until: float) -> Span | None:
    """Return an attempt's block, or None if its start is unknown."""
    if attempt.began_at is None:
        return None
    end = attempt.ended_at
    took = f"after {worded(end - attempt.began_at, 's')}" if end is not None else ""
    if end is None:
        end = until if attempt.is_open else attempt.began_at
    words = f"{name}, attempt {attempt.number}: {attempt.outcome}"
    parts = [" ".join(filter(None, (words, took))), masked_text(attempt.reason)]
    parts += [", ".join(filter(None, (attempt.host, *map(_short, attempt.gpus))))]
    return Span(
        attempt.began_at - origin,
        end - origin,
        "; ".join(filter(None, parts)),
        STATES.get(attempt.outcome, "plain"),
    )


def _short(gpu: str) -> str:
    """Return the beginning of a GPU's UUID, enough to distinguish the GPUs of a machine."""
    return gpu[:12] if gpu.startswith(("GPU-", "MIG-")) else gpu
