"""A training over time: its curves, with its GPUs and hosts on the same axis, and its waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from tarmac.pages.bars import Bar, stacked_bars
from tarmac.pages.figure import plot_id
from tarmac.pages.lanes import Lane, Span, lanes
from tarmac.pages.numbers import heading, known, unit_of, worded
from tarmac.pages.plots import Mark, Series, line_plot
from tarmac.pages.scales import Axis
from tarmac.runs import bare_name, name_words

if TYPE_CHECKING:
    from tarmac.pages.epochs import Epochs
    from tarmac.runs import GpuSamples, RunRecord, Samples

# All plots of a page with the same axis of time share one pointer.
_GROUP = "time"

# A loss that shrinks by more than this factor is easier to read on a logarithmic axis.
_LOG_FROM = 60.0

# With more GPUs, only the utilization of a GPU has its own lane.
_MAX_DETAILED = 2
_MAX_LANES = 16

_WAITS = (("data_wait_s", "waiting for data"), ("rank_wait_s", "waiting for other ranks"))
_KINDS = {
    "restart": ("restarted", "warn"),
    "workers_lost": ("workers lost", "bad"),
    "end": ("ended", "plain"),
}


def time_axis(record: RunRecord, epochs: Epochs, hosts: Sequence[Samples]) -> Axis:
    """Return the axis of time of a training's page, from the run's creation to its last event."""
    ends = [record.elapsed_s, *(row.at_s for row in epochs.rows)]
    ends += [samples.at_s[-1] for samples in hosts if samples.at_s]
    if record.ended_at is not None:
        ends.append((record.ended_at - record.created_at).total_seconds())
    end = max(ends)
    return Axis("time since the run was made", "s", low=0.0, high=end if end > 0 else 1.0)


def marks_of(hosts: Sequence[Samples]) -> list[Mark]:
    """Return restarts and losses of workers as marks on the axis of time."""
    return [
        Mark(event.at_s, _KINDS[event.kind][0], _KINDS[event.kind][1])
        for event in (hosts[0].events if hosts else ())
        if event.kind in ("restart", "workers_lost")
    ]


def curves(epochs: Epochs, record: RunRecord, x: Axis, marks: Sequence[Mark]) -> Markup:
    """Return plots of the training's metrics over time."""
    drawn: list[Markup] = []
    judged = record.judged_by
    for name in judged.scores:
        series = [
            Series(name_words(f"train_{name}"), epochs.points(name)),
            Series(name_words(f"val_{name}"), epochs.points(f"val_{name}"), "dashed"),
        ]
        is_less_better = judged.direction_of(name) == "min"
        unit = unit_of(name)
        axis = Axis(name_words(name), unit, is_log=is_less_better and _shrinks(series))
        # Only beside measured values: an expectation alone makes no plot.
        if _any_values(series) or known(record.metrics.get(f"test_{name}")) is not None:
            series += _expected(record, name, x)
        shown = [line for line in series if _any_values([line])]
        if shown:
            # Readers know that a smaller loss is better.
            mark = ", smaller is better" if is_less_better and name != "loss" else ""
            title = f"{heading(name)}{mark}"
            key = f"curve-{plot_id(name)}"
            drawn.append(line_plot(key, title, shown, x=x, y=axis, marks=marks, group=_GROUP))
    return Markup("").join(drawn)


def speed(epochs: Epochs, x: Axis, marks: Sequence[Mark]) -> Markup:
    """Return plots of the speed and of the learning rate."""
    drawn = Markup("")
    for name, title, unit in (
        ("samples_per_s", "Samples a second", ""),
        ("learning_rate", "Learning rate", ""),
    ):
        if epochs.has(name):
            drawn += line_plot(
                f"curve-{name.replace('_', '-')}",
                title,
                [Series(title.lower(), epochs.points(name))],
                x=x,
                y=Axis(title.lower(), unit, low=0.0),
                marks=marks,
                height=130,
                group=_GROUP,
            )
    return drawn


def gpu_lanes(hosts: Sequence[Samples], x: Axis, marks: Sequence[Mark]) -> Markup:
    """Return lanes for each GPU and for each host's CPU and memory; empty without samples."""
    rows = [lane for host in hosts for lane in _host_lanes(host, named=len(hosts) > 1)]
    if not rows:
        return Markup("")
    title = "GPUs and host" if any(host.gpus for host in hosts) else "Host"
    return lanes("lanes", title, rows, x=x, marks=marks, group=_GROUP, legend=_legend(rows))


def waits(epochs: Epochs) -> Markup:
    """Return a plot of each epoch's computing and waiting time; empty if waits are unknown."""
    parts = [(key, name) for key, name in _WAITS if epochs.has(key)]
    if not parts:
        return Markup("")
    rows = []
    for row in epochs.rows:
        waited = [row.values.get(key) for key, _ in parts]
        seconds = row.values.get("seconds")
        # At least 0: a wait for data may overlap with computing.
        spent = None if seconds is None else max(0.0, seconds - sum(filter(None, waited)))
        rows.append(Bar(str(row.number), [spent, *waited]))
    return stacked_bars(
        "waits-epochs",
        "Seconds of each epoch",
        rows,
        parts=["computing", *(name for _, name in parts)],
        x=Axis("epoch"),
        y=Axis("seconds", "s"),
    )


def share_waited(epochs: Epochs) -> list[tuple[str, float]]:
    """Return the kinds of waits with their shares of all epochs' time, the largest first."""
    seconds = sum(row.values.get("seconds", 0.0) for row in epochs.rows)
    if not seconds:
        return []
    shares = [
        (name, sum(row.values.get(key, 0.0) for row in epochs.rows) / seconds)
        for key, name in _WAITS
        if epochs.has(key)
    ]
    return sorted(shares, key=lambda pair: -pair[1])


def _expected(record: RunRecord, name: str, x: Axis) -> Iterator[Series]:
    """Yield lines for the expectation of a metric, and a dot for its final test result."""
    expected = record.expectation or {}
    end = x.high or 1.0
    unit, key = unit_of(name), f"test_{name}"
    of = str(expected.get("metric") or "")
    where = "in the test" if of == key else f"of the {name_words(of)}"
    for bound, word in (("at_least", "at least"), ("at_most", "at most")):
        value = known(expected.get(bound))
        if value is not None and bare_name(of) == name:
            label = f"expected {where}: {word} {worded(value, unit)}"
            yield Series(label, [(0.0, value), (end, value)], "dashed", 7)
    test = known(record.metrics.get(key))
    if test is not None:
        yield Series(f"{name_words(key)} {worded(test, unit)}", [(end, test)], "dots", 2)


def _any_values(series: Sequence[Series]) -> bool:
    return any(value is not None for line in series for _, value in line.points)


def _shrinks(series: Sequence[Series]) -> bool:
    values = [value for line in series for _, value in line.points if value is not None]
    return bool(values) and min(values) > 0 and max(values) / min(values) > _LOG_FROM


def _host_lanes(host: Samples, *, named: bool) -> Iterator[Lane]:
    where = f"{host.host} " if named and host.host else ""
    detailed = len(host.gpus) <= _MAX_DETAILED
    for place, gpu in enumerate(host.gpus[:_MAX_LANES]):
        yield from _gpu_lanes(f"{where}{_name(gpu)}", gpu, host.at_s, place, detailed=detailed)
    if len(host.gpus) > _MAX_DETAILED:
        yield from _summed(where, host)
    cores = "" if host.cpu_count is None else f"of {worded(host.cpu_count)} cores"
    if _says(host.cpu_ratio):
        yield Lane(
            f"{where}CPU",
            _points(host.at_s, host.cpu_ratio),
            unit="ratio",
            high=1.0,
            colour=7,
            note=cores,
        )
    if _says(host.memory_used_bytes):
        yield Lane(
            f"{where}memory of the host",
            _points(host.at_s, host.memory_used_bytes),
            unit="bytes",
            high=known(host.memory_total_bytes),
            colour=7,
        )


def _gpu_lanes(
    name: str, gpu: GpuSamples, at_s: Sequence[float], place: int, *, detailed: bool
) -> Iterator[Lane]:
    note = gpu.name
    lowered = _lowered(gpu, at_s)
    if _says(gpu.utilization_ratio):
        yield Lane(
            f"{name}: in use",
            _points(at_s, gpu.utilization_ratio),
            unit="ratio",
            high=1.0,
            colour=place % 7,
            note=note,
        )
    if detailed:
        for title, column, unit, high in (
            ("tensor cores in use", gpu.tensor_ratio, "ratio", 1.0),
            ("power", gpu.power_watts, "W", known(gpu.power_limit_watts)),
            ("memory", gpu.memory_used_bytes, "bytes", known(gpu.memory_total_bytes)),
            ("temperature", gpu.temperature_c, "°C", None),
        ):
            if _says(column):
                values = _points(at_s, column)
                yield Lane(f"{name}: {title}", values, unit=unit, high=high, colour=place % 7)
    if lowered:
        yield Lane(f"{name}: clocks lowered", spans=lowered)


def _summed(where: str, host: Samples) -> Iterator[Lane]:
    watts = [gpu.power_watts for gpu in host.gpus if _says(gpu.power_watts)]
    if watts:
        sums = [
            sum(value for value in readings if value is not None)
            if any(value is not None for value in readings)
            else None
            for readings in zip(*watts, strict=False)
        ]
        yield Lane(f"{where}all GPUs: power", _points(host.at_s, sums), unit="W", colour=3)


def _lowered(gpu: GpuSamples, at_s: Sequence[float]) -> list[Span]:
    """Return the stretches in which clocks were lowered for the same reasons."""
    spans: list[Span] = []
    before = 0.0
    last: tuple[str, ...] | None = None
    for at, reasons in zip(at_s, gpu.throttle_reasons, strict=False):
        if reasons:
            why = ", ".join(reasons)
            start = spans.pop().start if reasons == last else before
            text = f"{why}, {worded(at - start, 's')}"
            spans.append(Span(start, at, text, "warn", why))
        last = reasons
        before = at
    return spans


def _legend(rows: Sequence[Lane]) -> list[tuple[str, str]]:
    return [("clocks lowered", "warn")] if any(row.spans for row in rows) else []


def _name(gpu: GpuSamples) -> str:
    return f"GPU {gpu.index}" if gpu.index is not None else gpu.uuid


def _says(column: Sequence[float | None]) -> bool:
    return any(value is not None for value in column)


def _points(
    at_s: Sequence[float], column: Sequence[float | None]
) -> list[tuple[float, float | None]]:
    return [*zip(at_s, column, strict=False)]
