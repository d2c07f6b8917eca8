"""The view of GPUs, each with the work on it, and of work without a GPU."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tarmac.monitor.drawing.belonging import HostFacts, gpu_label
from tarmac.monitor.drawing.columns import Column, choose, heading, table_line
from tarmac.monitor.drawing.folding import Rest, folded
from tarmac.monitor.drawing.lines import Line, Row, Span, cut, fitted
from tarmac.monitor.drawing.look import Look, View
from tarmac.monitor.drawing.plots import bar, resampled, sparkline
from tarmac.monitor.drawing.quantities import UNKNOWN, duration, gib, percent, whole
from tarmac.monitor.drawing.states import gpu_state
from tarmac.monitor.drawing.work_lines import process_row, warning_rows, work_row

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu
    from tarmac.monitor.snapshot import ProcessRow, Snapshot, Work

COLUMNS = (
    Column("gpu", "GPU", 5, 0),
    Column("name", "NAME", 16, 5),
    Column("util", "UTIL", 4, 0, is_right=True),
    Column("bar", "", 10, 3),
    Column("past", "LAST MINUTE", 16, 7),
    Column("tensor", "TENSOR", 6, 8, is_right=True),
    Column("memory", "MEM GiB", 9, 1, is_right=True),
    Column("power", "WATTS", 8, 2, is_right=True),
    Column("temperature", "TEMP", 4, 4, is_right=True),
    Column("clock", "MHZ", 9, 9, is_right=True),
    Column("slowed", "SLOWED", 12, 6),
    Column("link", "PCIE", 5, 10),
    Column("who", "WHO", 9, 0, stretches=True, comfort=24),
)

# A word for each reason of lowered clocks; some reasons share a word.
_REASONS = {
    "sw_power_cap": "power",
    "sw_thermal": "heat",
    "hw_thermal": "heat",
    "hw_power_brake": "brake",
    "hw_slowdown": "hardware",
}


def gpus_view(snapshot: Snapshot, look: Look) -> View:
    """Return the view of the GPUs of all hosts."""
    columns = choose(COLUMNS, look.width, _without_unknown(snapshot, look))
    rows: list[Row] = []
    for host in snapshot.hosts:
        facts = HostFacts(host)
        if len(snapshot.hosts) > 1 or host.problem:
            rows.append(_host_row(facts, look))
        for gpu in host.gpus:
            rows += _rows_of(gpu, facts, columns, look)
        if host.no_gpu_reason:
            lines = textwrap.wrap(f"no GPU: {look.clean(host.no_gpu_reason)}", look.width)
            rows += [Row((), (Span(line),)) for line in lines]
        rows += _rows_elsewhere(facts, look)
    has_gpus = any(host.gpus for host in snapshot.hosts)
    return View(heading(columns) if has_gpus else (), tuple(rows))


def slowed_by(gpu: LiveGpu) -> str:
    """Return why a GPU's clocks are lowered, such as ``power,heat``; ``-`` if they are not."""
    words = [_REASONS.get(reason, reason.replace("_", " ")) for reason in gpu.throttle_reasons]
    return ",".join(dict.fromkeys(words)) or UNKNOWN


def link_of(gpu: LiveGpu) -> str:
    """Return generation and width of a GPU's link to its host, such as ``5x16``."""
    if gpu.pcie_generation is None and gpu.pcie_width is None:
        return UNKNOWN
    return f"{whole(gpu.pcie_generation)}x{whole(gpu.pcie_width)}"


def _without_unknown(snapshot: Snapshot, look: Look) -> frozenset[str]:
    """Return the columns to leave out: hidden columns, and columns without any value."""
    gpus = [gpu for host in snapshot.hosts for gpu in host.gpus]
    empty = set(look.hidden)
    if all(gpu.tensor_ratio is None for gpu in gpus):
        empty.add("tensor")
    if all(not gpu.throttle_reasons for gpu in gpus):
        empty.add("slowed")
    if look.past is None:
        empty.add("past")
    return frozenset(empty)


def _host_row(facts: HostFacts, look: Look) -> Row:
    host = facts.host
    line: Line = (Span(look.clean(host.host.name), "title"),)
    if host.problem:
        known = "" if host.age_s is None else f"last seen {duration(host.age_s)} ago: "
        line = (*line, Span(f"  {known}{look.clean(host.problem)}", "bad"))
    else:
        cpu = f"  CPU {percent(host.host.cpu_ratio)} of {whole(host.host.cpu_count)}"
        line = (*line, Span(cpu, "dim"))
    key = ("host", host.host.name, "")
    return Row(key, fitted(line, look.width, ascii_only=look.ascii_only), depth=-1)


def _rows_of(
    gpu: LiveGpu, facts: HostFacts, columns: Sequence[Column], look: Look
) -> Iterator[Row]:
    host = facts.host
    cells = _cells(gpu, facts, columns, look)
    if host.problem:
        cells = {key: Span(cell.text, "dim") for key, cell in cells.items()}
    line = table_line(columns, cells, ascii_only=look.ascii_only)
    yield Row(("gpu", host.host.name, gpu.uuid), line)
    yield from _rows_of_works(facts.work_first_on(gpu.uuid), facts, look)
    for process in facts.processes_on(gpu.uuid):
        if process.work is None:
            yield process_row(host, process, look)


def _rows_elsewhere(facts: HostFacts, look: Look) -> Iterator[Row]:
    """Yield the rows of work on no GPU here, with a heading if there are GPUs."""
    if not facts.elsewhere:
        return
    if facts.host.gpus:
        yield Row((), (Span("on no GPU here", "dim"),))
    known = {work.id for work in facts.elsewhere}
    parts: dict[str | None, list[Work]] = {}
    for work in facts.elsewhere:
        parts.setdefault(work.parent if work.parent in known else None, []).append(work)
    yield from _rows_of_works(parts.pop(None, ()), facts, look, 1, parts)


def _rows_of_works(
    works: Sequence[Work],
    facts: HostFacts,
    look: Look,
    depth: int = 1,
    parts: dict[str | None, list[Work]] | None = None,
) -> Iterator[Row]:
    """Yield the rows of works, each with its parts below it; `parts` has these by parent."""
    for entry in folded(works) if look.folds else works:
        if isinstance(entry, Rest):
            line = (Span("  " * depth), Span(look.clean(entry.text), "dim"))
            yield Row((), fitted(line, look.width, ascii_only=look.ascii_only), depth)
            continue
        yield work_row(facts.host, entry, look, depth)
        yield from warning_rows(entry, look, depth)
        # `pop` removes each entry, so that a cycle of parents ends.
        below = parts.pop(entry.id, ()) if parts else ()
        yield from _rows_of_works(below, facts, look, depth + 1, parts)


def _cells(
    gpu: LiveGpu, facts: HostFacts, columns: Sequence[Column], look: Look
) -> dict[str, Span]:
    host = facts.host
    state = gpu_state(host.gpu_states.get(gpu.uuid))
    label = gpu_label(gpu, host.gpus)
    widths = {column.key: column.width for column in columns}
    cells = {
        "gpu": Span(f"{label:<3} {state.text}", state.tone),
        "name": Span(_short_name(look.clean(gpu.name))),
        "util": Span(percent(gpu.utilization_ratio), state.tone),
        "tensor": Span(percent(gpu.tensor_ratio)),
        "memory": Span(f"{gib(gpu.memory_used_bytes)}/{_whole_gib(gpu.memory_total_bytes)}"),
        "power": Span(f"{whole(gpu.power_watts)}/{whole(gpu.power_limit_watts)}"),
        "temperature": Span(
            f"{whole(gpu.temperature_c)}C" if gpu.temperature_c is not None else UNKNOWN
        ),
        "clock": Span(f"{whole(gpu.sm_clock_mhz)}/{whole(gpu.max_sm_clock_mhz)}"),
        "slowed": Span(slowed_by(gpu), "warn" if gpu.throttle_reasons else "dim"),
        "link": Span(link_of(gpu)),
        "who": _who(gpu, facts, look),
    }
    if "bar" in widths:
        drawn = bar(gpu.utilization_ratio, widths["bar"], ascii_only=look.ascii_only)
        cells["bar"] = Span(drawn, state.tone)
    if "past" in widths and look.past is not None:
        past = look.past(host.host.name, gpu.uuid)
        thinned = resampled(past, widths["past"])
        drawn = sparkline(thinned, widths["past"], ascii_only=look.ascii_only)
        cells["past"] = Span(drawn, state.tone)
    return cells


def _who(gpu: LiveGpu, facts: HostFacts, look: Look) -> Span:
    if gpu.error is not None:
        return Span(look.clean(gpu.error), "bad")
    names = [look.clean(work.id) for work in facts.work_on(gpu.uuid)]
    names += dict.fromkeys(
        _other(process, look) for process in facts.processes_on(gpu.uuid) if process.work is None
    )
    state = facts.host.gpu_states.get(gpu.uuid)
    if not names and any(other.parent_uuid == gpu.uuid for other in facts.host.gpus):
        return Span("in slices", "dim")
    if state == "held":
        idle = facts.host.gpu_idle_s.get(gpu.uuid)
        held = "held idle" if idle is None else f"idle {duration(idle)}"
        return Span(", ".join([held, *names]), "held")
    if not names and state == "free":
        return Span("free", "free")
    return Span(", ".join(names) or UNKNOWN)


def _other(process: ProcessRow, look: Look) -> str:
    words = (process.command or "").split()
    program = words[0].rpartition("/")[2] if words else ""
    parts = [part for part in (process.user, program) if part]
    return look.clean(":".join(parts) or process.container or "not known whose")


def _short_name(name: str) -> str:
    for maker in ("NVIDIA ", "GeForce ", "AMD ", "Radeon "):
        name = name.removeprefix(maker)
    return name


def _whole_gib(size: int | None) -> str:
    return UNKNOWN if size is None else cut(f"{size / 2**30:.0f}", 4)
