"""The page of the GPUs and their work at the moment: `tarmac top` in a browser."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from markupsafe import Markup, escape

from tarmac.machine import LiveGpu
from tarmac.monitor import HostSnapshot, Snapshot, Work
from tarmac.pages import Page, Section, chip, facts, message, paragraph, table, worded
from tarmac.server.addresses import run_address

_GPU_STATES = {"busy": "ok", "free": "plain", "held": "warn", "bad": "bad"}
_WORK_STATES = {"busy": "ok", "warming": "busy", "idle": "warn", "hung": "bad", "unreadable": "bad"}
# A job may have thousands of running tasks.
_ROWS = 200

_LEVELS = {"failure": "bad", "warning": "warn", "note": "plain"}


def gpus_page(snapshot: Snapshot, runs: Collection[str]) -> Page:
    """Return the page for a snapshot.

    Args:
        snapshot: Snapshot to show, with all hosts and their GPUs.
        runs: Names of runs that have a page.
    """
    sections: list[Section] = []
    for place, host in enumerate(snapshot.hosts):
        sections += _host(place, host, runs)
    num_gpus = sum(len(host.gpus) for host in snapshot.hosts)
    words = {0: "No GPU", 1: "1 GPU"}.get(num_gpus, f"{num_gpus} GPUs")
    return Page(title="GPUs", subtitle=f"{words}; what this machine does now.", sections=sections)


def _host(place: int, host: HostSnapshot, runs: Collection[str]) -> list[Section]:
    name = host.host.name
    warnings = Markup("")
    if host.problem:
        age = f", {worded(host.age_s, 's')} ago" if host.age_s is not None else ""
        warnings += message("warn", f"{host.problem}. What is shown was last known{age}.")
    for finding in host.findings:
        commands = [finding.command] if finding.command else []
        warnings += message(_LEVELS.get(finding.level, "plain"), finding.text, commands=commands)
    if host.gpus:
        gpus = table(
            ("GPU", "State", "Busy", "Memory", "Power", "Temperature", "Clock", "Who"),
            [_gpu(gpu, host, runs) for gpu in host.gpus],
            label=f"GPUs of {name}",
            numbers=(2, 3, 4, 5, 6),
        )
    else:
        gpus = message("plain", f"No GPU: {host.no_gpu_reason or 'none is known of'}")
    sections = [Section(f"host-{place}", name, warnings + gpus + _machine(host))]
    if host.work:
        rows = [_work(work, runs) for work in host.work[:_ROWS]]
        columns = ("Work", "State", "Progress", "Loss", "Samples/s", "Left", "Slow because")
        shown = table(columns, rows, label=f"Work on {name}", numbers=(3, 4, 5))
        left = len(host.work) - _ROWS
        note = f"The first {_ROWS}; {left:,} more are at work." if left > 0 else ""
        sections.append(Section(f"work-{place}", f"Work on {name}", shown, note))
    return sections


def _machine(host: HostSnapshot) -> Markup:
    seen = host.host
    return facts(
        [
            ("CPU", f"{worded(seen.cpu_ratio, 'ratio')} of {worded(seen.cpu_count)} cores"),
            ("memory", _of(seen.memory_used_bytes, seen.memory_total_bytes)),
        ]
    )


def _gpu(gpu: LiveGpu, host: HostSnapshot, runs: Collection[str]) -> Sequence[str | Markup]:
    name = f"{gpu.index}: {gpu.name}"
    if gpu.error is not None:
        return (name, chip("bad", "bad"), *["-"] * 5, gpu.error)
    state = host.gpu_states.get(gpu.uuid, "")
    idle_s = host.gpu_idle_s.get(gpu.uuid)
    idle = "" if idle_s is None else f" for {worded(idle_s, 's')}"
    limit = "" if gpu.power_limit_watts is None else f" of {worded(gpu.power_limit_watts, 'W')}"
    return (
        name,
        chip(f"{state}{idle}", _GPU_STATES.get(state, "plain")) if state else "-",
        worded(gpu.utilization_ratio, "ratio"),
        _of(gpu.memory_used_bytes, gpu.memory_total_bytes),
        worded(gpu.power_watts, "W") + limit,
        worded(gpu.temperature_c, "°C"),
        worded(gpu.sm_clock_mhz, "MHz"),
        _users(gpu, host, runs),
    )


def _users(gpu: LiveGpu, host: HostSnapshot, runs: Collection[str]) -> Markup:
    """Return the work on a GPU, and its other processes by user and command."""
    names = [work.id for work in host.work if gpu.uuid in work.gpu_uuids]
    others = [
        f"{row.user or '-'}: {row.command or row.pid or '-'}"
        for row in host.processes
        if row.gpu_uuid == gpu.uuid and row.work is None
    ]
    parts = [*(_link(name, runs) for name in names), *map(escape, others)]
    return Markup("<br>").join(parts) if parts else escape("-")


def _work(work: Work, runs: Collection[str]) -> Sequence[str | Markup]:
    if work.epoch is not None:
        progress = f"epoch {work.epoch} of {worded(work.epochs)}"
    else:
        progress = f"{worded(work.done)} of {worded(work.total)}" if work.total else "-"
    lines = [*work.slow, *([work.note] if work.note else [])]
    return (
        _link(work.id, runs),
        chip(work.state, _WORK_STATES.get(work.state, "plain")),
        progress,
        worded(work.loss),
        worded(work.samples_per_s),
        worded(work.eta_s, "s"),
        Markup("").join(map(paragraph, lines)) if lines else "-",
    )


def _link(work: str, runs: Collection[str]) -> Markup:
    """Return the id of a work, as a link to the page of its run if there is one."""
    run = work if work in runs else work.partition("/")[0]
    if run not in runs:
        return escape(work)
    return Markup('<a href="{}">{}</a>').format(run_address(run), work)


def _of(used: float | None, total: float | None) -> str:
    return f"{worded(used, 'bytes')} of {worded(total, 'bytes')}"
