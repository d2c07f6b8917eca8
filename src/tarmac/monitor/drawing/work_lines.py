"""The lines of one work, of its ranks, and of other processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tarmac.monitor.drawing.lines import Line, Row, Span, cut, fitted, joined
from tarmac.monitor.drawing.look import Look, with_command
from tarmac.monitor.drawing.quantities import (
    UNKNOWN,
    count,
    decimal,
    duration,
    gib,
    percent,
    watt_hours,
    whole,
)
from tarmac.monitor.drawing.states import work_state

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import HostSnapshot, ProcessRow, Work

# Waits below this share are not shown.
_WAIT_SHOWN = 0.05

_UNITS = {
    "samples_per_s": ("samples/s", count),
    "waiting_s": ("waited", duration),
    "sm_ratio": ("util", percent),
    "utilization_ratio": ("util", percent),
    "loss": ("loss", decimal),
}


def work_row(host: HostSnapshot, work: Work, look: Look, depth: int = 1) -> Row:
    """Return the line of a work: its name, and as many facts on its progress as fit."""
    indent = "  " * depth
    letter = work_state(work.state)
    room = look.width - len(indent) - 2
    parts = [part for part in _told(work, look) if part]
    needed = sum(len(span.text) for part in parts[:2] for span in part) + 4
    name = cut(look.clean(work.id), max(10, room - needed), ascii_only=look.ascii_only)
    spans = joined([(Span(name, "strong"),), *parts], room)
    line = (Span(indent), letter, Span(" "), *spans)
    return Row(
        ("work", host.host.name, work.id),
        fitted(line, look.width, ascii_only=look.ascii_only),
        depth,
    )


def warning_rows(work: Work, look: Look, depth: int = 1) -> list[Row]:
    """Return the lines of reasons why work is slow, each with its command."""
    indent = "  " * (depth + 1)
    rows: list[Row] = []
    for number, why in enumerate(work.slow):
        advice = work.advice[number] if number < len(work.advice) else ""
        spans = (Span(f"{indent}! {look.clean(why)}", "warn"),)
        lines = with_command(spans, look.clean(advice), look, f"{indent}  ")
        rows += [Row((), line, depth + 1) for line in lines]
    return rows


def process_row(host: HostSnapshot, process: ProcessRow, look: Look, depth: int = 1) -> Row:
    """Return the line of a process: pid, user, memory and command."""
    indent = "  " * depth
    facts = [f"{gib(process.memory_bytes)} GiB", percent(process.sm_ratio)]
    where = (
        (f"slurm {look.clean(process.slurm_job)}" if process.slurm_job else ""),
        (f"in {look.clean(process.container)}" if process.container else ""),
    )
    text = "  ".join(fact for fact in (*facts, *where) if fact and not fact.startswith(UNKNOWN))
    who = "" if process.user is None else look.clean(process.user)
    pid = "" if process.pid is None else str(process.pid)
    named = " ".join(part for part in (pid, who) if part) or "a process of an unknown user"
    command = "" if process.command is None else f"  {look.clean(process.command)}"
    line = (
        Span(f"{indent}- ", "dim"),
        Span(named, "strong" if who else ""),
        Span(f"  {text}" if text else ""),
        Span(command, "dim"),
    )
    key = ("process", host.host.name, pid or "-", process.gpu_uuid)
    return Row(key, fitted(line, look.width, ascii_only=look.ascii_only), depth)


def rank_row(rank: Mapping[str, object], look: Look, depth: int) -> Row:
    """Return the line of a rank, with all known facts."""
    parts: list[Line] = [(Span(f"rank {look.clean(str(rank.get('rank', UNKNOWN)))}"),)]
    for name, value in rank.items():
        if name == "rank" or value is None:
            continue
        unit, form = _UNITS.get(name, (look.clean(name).replace("_", " "), None))
        if form is not None and isinstance(value, int | float):
            text = f"{unit} {form(value)}"
            text = f"{form(value)}/s" if name == "samples_per_s" else text
        elif isinstance(value, float):
            text = f"{unit} {value:.3g}"
        else:
            text = f"{unit} {look.clean(str(value))}"
        parts.append((Span(text),))
    indent = "  " * depth
    line = (Span(f"{indent}- ", "dim"), *joined(parts, look.width - len(indent) - 2))
    return Row((), fitted(line, look.width, ascii_only=look.ascii_only), depth)


def progress(work: Work) -> str:
    """Return the progress of a work in epochs or parts; ``-`` if unknown."""
    if work.epoch is not None or work.epochs is not None:
        return f"{whole(work.epoch)}/{whole(work.epochs)}"
    if work.done is not None or work.total is not None:
        return f"{whole(work.done)}/{whole(work.total)}"
    return UNKNOWN


def waits_text(work: Work) -> str:
    """Return the longest wait of a work, such as ``data 31%``; ``-`` if it hardly waits."""
    worst = max(work.waits.items(), key=lambda item: item[1], default=("", 0.0))
    return f"{worst[0]} {percent(worst[1])}" if worst[1] >= _WAIT_SHOWN else UNKNOWN


def state_words(work: Work) -> Span:
    """Return a notable state in words; empty for a busy or ended work."""
    if work.state == "idle":
        return Span(f"idle for {duration(work.idle_s)}", "held")
    if work.state == "unreadable":
        return Span("cannot be read", "bad")
    if work.state == "hung":
        return Span(f"hung: silent for {duration(work.quiet_s)}", "bad")
    if work.state == "warming":
        return Span("warming up")
    if work.state == "waiting":
        return Span("waits", "free")
    return Span("")


def _told(work: Work, look: Look) -> list[Line]:
    state = state_words(work)
    known: list[Line] = [(state,)] if state.text else []
    done = progress(work)
    if done != UNKNOWN:
        known.append((Span(f"{_parts_noun(work)} {done}"),))
    if work.loss is not None:
        known.append((Span(f"loss {decimal(work.loss)}"),))
    if work.metric is not None:
        name = look.clean(work.metric_name or "metric").replace("_", " ")
        known.append((Span(f"{name} {decimal(work.metric)}"),))
    if work.samples_per_s is not None:
        known.append((Span(f"{count(work.samples_per_s)}/s"),))
    if work.eta_s is not None:
        known.append((Span(f"left {duration(work.eta_s)}"),))
    if work.checkpoint_age_s is not None:
        known.append((Span(f"saved {duration(work.checkpoint_age_s)} ago"),))
    if waits_text(work) != UNKNOWN:
        known.append((Span(f"waits {look.clean(waits_text(work))}", "warn"),))
    if work.retries:
        known.append((Span(f"retries {work.retries}"),))
    if work.energy_joules is not None:
        known.append((Span(watt_hours(work.energy_joules)),))
    if work.note:
        known.append((Span(look.clean(work.note), "dim"),))
    return known


def _parts_noun(work: Work) -> str:
    if work.epoch is not None or work.epochs is not None:
        return "epoch"
    return {"search": "trials", "job": "tasks"}.get(work.kind, "done")
