"""All facts on one GPU, one work or one host, with plots."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tarmac.monitor.drawing import (
    UNKNOWN,
    Line,
    Look,
    Row,
    Span,
    count,
    decimal,
    duration,
    finding_lines,
    gib,
    percent,
    watt_hours,
    whole,
)
from tarmac.monitor.drawing.belonging import HostFacts, gpu_label
from tarmac.monitor.drawing.gpus import link_of, slowed_by
from tarmac.monitor.drawing.lines import fitted, width_of
from tarmac.monitor.drawing.work_lines import (
    process_row,
    progress,
    rank_row,
    state_words,
    warning_rows,
    work_row,
)
from tarmac.monitor.screen.logs import log_rows
from tarmac.monitor.screen.own_history import metric_series, sampled_series
from tarmac.monitor.screen.plotting import Series, plot_lines
from tarmac.monitor.snapshot import HostSnapshot, Snapshot, Work

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu
    from tarmac.monitor.screen.history import History

_LOG_LINES = 10

_GONE: Line = (Span("it is no longer there", "dim"),)


def details_rows(
    key: tuple[str, ...],
    snapshot: Snapshot,
    history: History,
    look: Look,
    *,
    elsewhere: str = "",
) -> list[Row]:
    """Return all facts on the subject of a row.

    Args:
        key: Key of the row; see `Row.key`.
        snapshot: Newest snapshot, to look the key up in.
        history: Earlier values of GPUs, for the plots.
        look: Width, encoding and other settings of the drawing.
        elsewhere: Why its files are not read on this machine; empty if they are.
    """
    lines: Iterable[Line] = (_GONE,)
    host = next((host for host in snapshot.hosts if host.host.name == key[1]), None)
    if host is not None and key[0] == "work":
        for work in host.work:
            if work.id == key[2]:
                lines = _of_work(work, host, history, look, elsewhere)
    elif host is not None and key[0] in ("gpu", "process"):
        for gpu in host.gpus:
            if gpu.uuid == key[-1]:
                lines = _of_gpu(gpu, host, history, look)
    elif host is not None:
        lines = _of_host(host, look)
    return [Row((), fitted(line, look.width, ascii_only=look.ascii_only)) for line in lines]


def _of_gpu(gpu: LiveGpu, host: HostSnapshot, history: History, look: Look) -> list[Line]:
    label = gpu_label(gpu, host.gpus)
    lines: list[Line] = [
        (Span(f"GPU {label}  {look.clean(gpu.name)}", "title"), Span(f"  {gpu.uuid}", "dim"))
    ]
    if gpu.error is not None:
        lines.append((Span(look.clean(gpu.error), "bad"),))
    throttled = ", ".join(f"{why} {duration(s)}" for why, s in gpu.throttled_s.items() if s)
    facts = (
        ("state", host.gpu_states.get(gpu.uuid, UNKNOWN)),
        ("held idle", duration(host.gpu_idle_s.get(gpu.uuid))),
        ("tensor cores", percent(gpu.tensor_ratio)),
        ("memory traffic", percent(gpu.memory_utilization_ratio)),
        ("memory temp", whole(gpu.memory_temperature_c)),
        ("fan", percent(gpu.fan_ratio)),
        ("clock MHz", f"{whole(gpu.sm_clock_mhz)}/{whole(gpu.max_sm_clock_mhz)}"),
        ("memory MHz", whole(gpu.memory_clock_mhz)),
        ("slowed by", slowed_by(gpu)),
        ("slowed so far", throttled or UNKNOWN),
        ("PCIe", link_of(gpu)),
        ("PCIe at most", f"{whole(gpu.max_pcie_generation)}x{whole(gpu.max_pcie_width)}"),
        ("PCIe out", f"{gib(gpu.pcie_sent_bytes_per_s)} GiB/s"),
        ("PCIe in", f"{gib(gpu.pcie_received_bytes_per_s)} GiB/s"),
        ("energy", watt_hours(gpu.energy_joules)),
        ("ECC corrected", whole(gpu.corrected_errors)),
        ("ECC uncorrected", whole(gpu.uncorrected_errors)),
        ("rows remapped", whole(gpu.row_remaps)),
        ("address", gpu.pci_address or UNKNOWN),
    )
    lines += [*_facts(facts, look), ()]
    lines += plot_lines([*_gpu_series([gpu], host, history)], look)
    belonging = HostFacts(host)
    for work in belonging.work_on(gpu.uuid):
        lines += [row.line for row in (work_row(host, work, look, 0), *warning_rows(work, look, 0))]
    lines += [
        process_row(host, process, look, 0).line for process in belonging.processes_on(gpu.uuid)
    ]
    return lines + _findings([gpu.uuid], host, look)


def _of_work(
    work: Work, host: HostSnapshot, history: History, look: Look, elsewhere: str
) -> list[Line]:
    lines: list[Line] = [
        (Span(look.clean(work.id), "title"), Span(f"  {work.kind} {look.clean(work.status)}")),
    ]
    state = state_words(work)
    if state.text:
        lines.append((state,))
    waits = ", ".join(f"{what} {percent(share)}" for what, share in work.waits.items())
    facts = (
        ("workload", look.clean(work.workload)),
        ("done", progress(work)),
        ("loss", decimal(work.loss)),
        (look.clean(work.metric_name or "metric"), decimal(work.metric)),
        ("samples/s", count(work.samples_per_s)),
        ("left", duration(work.eta_s)),
        ("saved", _ago(work.checkpoint_age_s)),
        ("last sign", _ago(work.quiet_s)),
        ("waits for", look.clean(waits) or UNKNOWN),
        ("retries", whole(work.retries)),
        ("energy", watt_hours(work.energy_joules)),
        ("user", look.clean(work.user)),
        ("GPUs", HostFacts(host).labels_of(work)),
        ("known by", look.clean(work.joined_by)),
        ("processes", ",".join(map(str, work.pids)) or UNKNOWN),
    )
    lines += [*_facts(facts, look), (Span("in ", "dim"), Span(look.clean(work.path)))]
    lines += [row.line for row in warning_rows(work, look, 0)]
    if work.note:
        lines.append((Span(look.clean(work.note), "dim"),))
    gpus = [gpu for gpu in host.gpus if gpu.uuid in work.gpu_uuids]
    if elsewhere:
        text = f"{elsewhere}: its files are not read here, so its log and history are not shown"
        lines.append((Span(text, "dim"),))
        series = [*_work_series(work, host, history), *_gpu_series(gpus, host, history)]
    else:
        sampled = sampled_series(work)
        of_gpus = sampled.gpus or _gpu_series(gpus, host, history)
        series = [*metric_series(work), *of_gpus, *sampled.host]
    lines += [(), *plot_lines(series, look)]
    lines += [rank_row(rank, look, 0).line for rank in work.ranks]
    lines += _findings(work.gpu_uuids, host, look)
    log = [] if elsewhere else [row.line for row in log_rows(work, look, _LOG_LINES)]
    return [*lines, *([()] if log else []), *log[-_LOG_LINES - 1 :]]


def _of_host(host: HostSnapshot, look: Look) -> list[Line]:
    machine = host.host
    facts = (
        ("CPU", f"{percent(machine.cpu_ratio)} of {count(machine.cpu_count)}"),
        ("load", decimal(machine.load_1m)),
        ("memory GiB", f"{gib(machine.memory_used_bytes)}/{gib(machine.memory_total_bytes)}"),
        ("quota used up", percent(machine.throttled_ratio)),
        ("GPUs", str(len(host.gpus))),
        ("work", str(len(host.work))),
    )
    lines: list[Line] = [(Span(look.clean(machine.name), "title"),), *_facts(facts, look)]
    for text, tone in ((host.problem, "bad"), (host.no_gpu_reason, "dim")):
        if text:
            lines.append((Span(look.clean(text), tone),))
    lines += [work_row(host, work, look, 0).line for work in host.work]
    return lines + _findings(None, host, look)


def _ago(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{duration(seconds)} ago"


def _facts(facts: Iterable[tuple[str, str]], look: Look) -> list[Line]:
    """Return the known facts in as many columns as fit; unknown facts are left out."""
    known = [(name, value) for name, value in facts if value.strip("-/ GiBsx")]
    cells = [(Span(f"{name} ", "dim"), Span(value)) for name, value in known]
    widest = max(map(width_of, cells), default=1) + 2
    across = max(1, look.width // widest)
    lines: list[Line] = []
    for begin in range(0, len(cells), across):
        spans: list[Span] = []
        for cell in cells[begin : begin + across]:
            spans += [*cell, Span(" " * (widest - width_of(cell)))]
        lines.append(tuple(spans))
    return lines


def _gpu_series(gpus: Sequence[LiveGpu], host: HostSnapshot, history: History) -> Iterable[Series]:
    name, uuids = host.host.name, [gpu.uuid for gpu in gpus]
    many = f" (mean of {len(gpus)})" if len(gpus) > 1 else ""
    yield Series(f"utilization{many}", history.mean(name, uuids, "util"), percent, 0.0, 1.0)
    totals = [gpu.memory_total_bytes for gpu in gpus if gpu.memory_total_bytes is not None]
    yield Series(
        f"memory GiB{many}",
        history.mean(name, uuids, "memory"),
        gib,
        0.0,
        max(totals) if totals else None,
    )
    limits = [gpu.power_limit_watts for gpu in gpus if gpu.power_limit_watts is not None]
    yield Series(
        f"watts{many}",
        history.mean(name, uuids, "watts"),
        whole,
        0.0,
        max(limits) if limits else None,
    )
    yield Series(f"temperature C{many}", history.mean(name, uuids, "temperature"), whole)


def _work_series(work: Work, host: HostSnapshot, history: History) -> Iterable[Series]:
    """Yield a training's values as seen by the screen, for work whose files are not here."""
    for name, title, form in (("loss", "loss", decimal), ("speed", "samples/s", count)):
        yield Series(title, history.values(host.host.name, work.id, name), form)


def _findings(uuids: Iterable[str] | None, host: HostSnapshot, look: Look) -> list[Line]:
    wanted = None if uuids is None else {*uuids}
    findings = tuple(
        finding for finding in host.findings if wanted is None or finding.gpu_uuid in wanted
    )
    if not findings:
        return []
    narrowed = Snapshot(host.at, (dataclasses.replace(host, findings=findings),))
    return [(), *finding_lines(narrowed, look)]
