"""The view of hosts, and the lines above every view: the host's line and the problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.monitor.drawing.belonging import HostFacts, gpu_label
from tarmac.monitor.drawing.columns import Column, choose, heading, table_line
from tarmac.monitor.drawing.lines import Line, Row, Span, fitted, joined
from tarmac.monitor.drawing.look import Look, View, with_command
from tarmac.monitor.drawing.quantities import (
    UNKNOWN,
    count,
    decimal,
    duration,
    gib,
    percent,
    whole,
)

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import Finding, HostSnapshot, Snapshot

COLUMNS = (
    Column("state", "S", 1, 0),
    Column("name", "HOST", 10, 0, stretches=True, comfort=12),
    Column("gpus", "GPUS", 4, 1, is_right=True),
    Column("busy", "BUSY", 4, 2, is_right=True),
    Column("held", "IDLE", 4, 2, is_right=True),
    Column("free", "FREE", 4, 2, is_right=True),
    Column("bad", "BAD", 3, 2, is_right=True),
    Column("util", "UTIL", 4, 3, is_right=True),
    Column("vram", "GPU MEM GiB", 12, 5, is_right=True),
    Column("power", "WATTS", 6, 6, is_right=True),
    Column("cpu", "CPU", 4, 4, is_right=True),
    Column("cores", "CORES", 5, 8, is_right=True),
    Column("load", "LOAD", 5, 7, is_right=True),
    Column("memory", "MEM GiB", 11, 5, is_right=True),
    Column("work", "WORK", 4, 3, is_right=True),
    Column("note", "NOTE", 24, 6),
)

_TONES = {"failure": "bad", "warning": "warn", "note": "dim"}
_LETTERS = {"failure": "F", "warning": "W", "note": "n"}


def hosts_view(snapshot: Snapshot, look: Look) -> View:
    """Return the view of hosts, with a line for each host."""
    columns = choose(COLUMNS, look.width, look.hidden)
    rows = []
    for host in snapshot.hosts:
        cells = _cells(host, look)
        if host.problem:
            cells = {key: Span(cell.text, "dim") for key, cell in cells.items()}
            cells["note"] = Span(_problem(host, look), "bad")
        line = table_line(columns, cells, ascii_only=look.ascii_only)
        rows.append(Row(("host", host.host.name, ""), line))
        if not any(column.key == "note" for column in columns) and host.problem:
            spans = (Span(f"  {_problem(host, look)}", "bad"),)
            rows.append(Row((), fitted(spans, look.width, ascii_only=look.ascii_only), 1))
    return View(heading(columns), tuple(rows))


def head_line(snapshot: Snapshot, look: Look) -> Line:
    """Return the top line: machine, time, numbers of GPUs by state, CPU and memory."""
    time = snapshot.at.astimezone().strftime("%H:%M:%S")
    counted = _counted(snapshot)
    parts: list[Line]
    if len(snapshot.hosts) == 1:
        host = snapshot.hosts[0].host
        used, total = gib(host.memory_used_bytes), gib(host.memory_total_bytes)
        cores = whole(host.cpu_count) if (host.cpu_count or 1) >= 1 else decimal(host.cpu_count)
        parts = [
            (Span(look.clean(host.name), "title"),),
            (Span(time),),
            *counted,
            (Span(f"CPU {percent(host.cpu_ratio)} of {cores}"),),
            (Span(f"mem {used}/{total} GiB"),),
        ]
        if host.load_1m is not None:
            parts.append((Span(f"load {host.load_1m:.1f}"),))
        if host.throttled_ratio:
            parts.append((Span(f"quota used up {percent(host.throttled_ratio)}", "warn"),))
    else:
        parts = [(Span(f"{len(snapshot.hosts)} hosts", "title"),), (Span(time),), *counted]
    return fitted(joined(parts, look.width), look.width, ascii_only=look.ascii_only)


def _counted(snapshot: Snapshot) -> list[Line]:
    """Return the number of GPUs in each state, as one part of a line."""
    states = [state for host in snapshot.hosts for state in host.gpu_states.values()]
    spans: list[Span] = []
    for state, word in (("busy", "busy"), ("held", "held idle"), ("free", "free"), ("bad", "bad")):
        if number := states.count(state):
            spans += [*([Span(", ")] if spans else []), Span(f"{number} {word}", state)]
    return [tuple(spans)] if spans else []


def finding_lines(snapshot: Snapshot, look: Look) -> list[Line]:
    """Return the findings of checks and drivers, failures first, each with its command."""
    pairs = [(host, finding) for host in snapshot.hosts for finding in host.findings]
    pairs.sort(key=lambda pair: list(_TONES).index(pair[1].level) if pair[1].level in _TONES else 9)
    has_hosts = len(snapshot.hosts) > 1
    return [
        line
        for host, finding in pairs
        for line in _lines_of_finding(host, finding, look, has_host=has_hosts)
    ]


def trouble_lines(snapshot: Snapshot, look: Look) -> list[Line]:
    """Return the lines for held, idle GPUs with their holders, and for hung work."""
    lines = []
    for host in snapshot.hosts:
        held = [
            gpu
            for gpu in host.gpus
            if host.gpu_states.get(gpu.uuid) == "held"
            and host.gpu_idle_s.get(gpu.uuid, 0.0) >= look.idle_after_s
        ]
        if held:
            facts = HostFacts(host)
            labels = []
            for gpu in held:
                names = [look.clean(work.id) for work in facts.work_on(gpu.uuid)] or [
                    *dict.fromkeys(look.clean(p.user) for p in facts.processes_on(gpu.uuid))
                ]
                words = [*names, duration(host.gpu_idle_s.get(gpu.uuid))]
                labels.append(f"{gpu_label(gpu, host.gpus)} ({', '.join(words)})")
            noun = "GPU" if len(held) == 1 else "GPUs"
            lines.append((Span(f"I {noun} held idle: {', '.join(labels)}", "held"),))
        for work in host.work:
            if work.state == "hung":
                silent = "" if work.quiet_s is None else f", silent for {duration(work.quiet_s)}"
                note = f": {look.clean(work.note)}" if work.note else ""
                lines.append((Span(f"H {look.clean(work.id)} hangs{silent}{note}", "bad"),))
    return [fitted(line, look.width, ascii_only=look.ascii_only) for line in lines]


def _lines_of_finding(
    host: HostSnapshot, finding: Finding, look: Look, *, has_host: bool
) -> list[Line]:
    gpu = next((gpu for gpu in host.gpus if gpu.uuid == finding.gpu_uuid), None)
    where = [host.host.name] if has_host else []
    where += [f"GPU {gpu_label(gpu, host.gpus)}"] if gpu is not None else []
    tone = _TONES.get(finding.level, "warn")
    letter = _LETTERS.get(finding.level, "?")
    prefix = f"{', '.join(where)}: " if where else ""
    text = f"{letter} {look.clean(prefix + finding.text)} [{look.clean(finding.code)}]"
    if finding.is_of_check and finding.at is not None:
        text += f", from the check of {duration((host.at - finding.at).total_seconds())} ago"
    command = look.clean(" ".join(finding.command.split()))
    return with_command((Span(text, tone),), command, look)


def _cells(host: HostSnapshot, look: Look) -> dict[str, Span]:
    # A card in slices counts as its slices.
    cut_up = {gpu.parent_uuid for gpu in host.gpus}
    gpus = [gpu for gpu in host.gpus if gpu.uuid not in cut_up]
    states = [host.gpu_states.get(gpu.uuid) for gpu in gpus]
    worst = next((state for state in ("bad", "held") if state in states), "")
    state = Span({"bad": "!", "held": "I"}.get(worst, "B" if "busy" in states else "F"), worst)
    utils = [gpu.utilization_ratio for gpu in gpus]
    used = _total([gpu.memory_used_bytes for gpu in gpus])
    total = _total([gpu.memory_total_bytes for gpu in gpus])
    machine = host.host
    cells = {
        "state": Span("!", "bad") if host.problem else state,
        "name": Span(look.clean(machine.name), "strong"),
        "gpus": Span(str(len(gpus))),
        "util": Span(percent(_mean(utils))),
        "vram": Span(f"{gib(used)}/{gib(total)}" if gpus else UNKNOWN),
        "power": Span(count(_total([gpu.power_watts for gpu in host.gpus]))),
        "cpu": Span(percent(machine.cpu_ratio)),
        "cores": Span(count(machine.cpu_count)),
        "load": Span(UNKNOWN if machine.load_1m is None else f"{machine.load_1m:.1f}"),
        "memory": Span(f"{gib(machine.memory_used_bytes)}/{gib(machine.memory_total_bytes)}"),
        "work": Span(str(sum(work.parent is None for work in host.work))),
        "note": Span(
            f"no GPU: {look.clean(host.no_gpu_reason)}" if host.no_gpu_reason else "", "dim"
        ),
    }
    for name in ("busy", "held", "free", "bad"):
        number = states.count(name)
        cells[name] = Span(str(number), name if number else "dim")
    return cells


def _problem(host: HostSnapshot, look: Look) -> str:
    seen = "" if host.age_s is None else f" (last seen {duration(host.age_s)} ago)"
    return f"{look.clean(host.problem)}{seen}"


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
