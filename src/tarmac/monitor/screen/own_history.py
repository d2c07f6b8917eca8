"""Plots of a training's own records: its metrics, its GPUs, its host.

They reach back to the start of the training, over all its sessions. The screen's own history has
only the time since the screen started.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tarmac.errors import TarmacError
from tarmac.files import read_lines
from tarmac.monitor.drawing import decimal, gib, percent, whole
from tarmac.monitor.screen.plotting import Series
from tarmac.runs import JudgedBy, bare_name

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import Work
    from tarmac.runs import Samples

# Values of a plot over time: more than fit on any terminal.
_STEPS = 400
# A moment has no value if its sample is this many usual intervals away.
_LATE = 8

Column = list[float | None]


class Sampled(NamedTuple):
    """The plots of a training's samples.

    Attributes:
        gpus: Plots of its GPUs; empty if it could not read any.
        host: Plots of the CPU and memory of the leading host.
    """

    gpus: tuple[Series, ...] = ()
    host: tuple[Series, ...] = ()


def metric_series(work: Work) -> Iterable[Series]:
    """Yield a training's values by epoch, if its directory can be read."""
    try:
        rows = [row for row in read_lines(Path(work.path) / "metrics.jsonl").values if row]
    except TarmacError:
        return
    judged = bare_name(work.metric_name or JudgedBy().metric)
    for name in dict.fromkeys(("loss", f"val_{judged}", judged)):
        values = [row.get(name) if isinstance(row, dict) else None for row in rows]
        known = [float(v) if isinstance(v, int | float) else None for v in values]
        if any(value is not None for value in known):
            yield Series(f"{name.replace('_', ' ')} by epoch", known, decimal, fills=True)


def sampled_series(work: Work) -> Sampled:
    """Return a training's samples over the time since it began; empty if it has none.

    Args:
        work: Work on this machine, or on a machine that shares its files.
    """
    if work.kind != "training":
        return Sampled()
    files = []
    try:
        for path in sorted(Path(work.path).glob("samples*.jsonl")):
            status = path.stat()
            files.append((path.name, status.st_mtime_ns, status.st_size))
    except OSError:
        return Sampled()
    return _sampled(work.path, tuple(files)) if files else Sampled()


# The screen draws every second, and files change every few seconds: read only changed files.
@functools.lru_cache(maxsize=4)
def _sampled(path: str, _files: tuple[tuple[str, int, int], ...]) -> Sampled:
    from tarmac.runs import read_all_samples  # noqa: PLC0415 - only details need it

    hosts = [samples for samples in read_all_samples(Path(path)) if len(samples.at_s) > 1]
    if not hosts:
        return Sampled()
    gpus = [(samples, gpu) for samples in hosts for gpu in samples.gpus]
    many = f" (mean of {len(gpus)})" if len(gpus) > 1 else ""
    memory = [gpu.memory_total_bytes for _, gpu in gpus if gpu.memory_total_bytes is not None]
    limits = [gpu.power_limit_watts for _, gpu in gpus if gpu.power_limit_watts is not None]
    plots = _Plots(begin_s=min(h.at_s[0] for h in hosts), end_s=max(h.at_s[-1] for h in hosts))
    named = f" of {hosts[0].host}" if len(hosts) > 1 else ""
    of_gpus = (
        plots.plot(
            f"GPU since it began{many}", [(s, g.utilization_ratio) for s, g in gpus], percent, 1.0
        ),
        plots.plot(
            f"memory GiB since it began{many}",
            [(s, g.memory_used_bytes) for s, g in gpus],
            gib,
            max(memory, default=None),
        ),
        plots.plot(
            f"watts since it began{many}",
            [(s, g.power_watts) for s, g in gpus],
            whole,
            max(limits, default=None),
        ),
        plots.plot(
            f"temperature C since it began{many}",
            [(s, g.temperature_c) for s, g in gpus],
            whole,
            low=None,
        ),
    )
    of_host = (
        plots.plot(f"CPU{named} since it began", [(hosts[0], hosts[0].cpu_ratio)], percent, 1.0),
        plots.plot(
            f"host's memory GiB{named} since it began",
            [(hosts[0], hosts[0].memory_used_bytes)],
            gib,
            hosts[0].memory_total_bytes,
        ),
    )
    has_gpus = any(value is not None for series in of_gpus for value in series.values)
    return Sampled(of_gpus if has_gpus else (), of_host)


class _Plots:
    """The plots of one time axis.

    Args:
        begin_s: Start of the axis, in seconds since the run was created.
        end_s: End of the axis, in seconds since the run was created.
    """

    def __init__(self, *, begin_s: float, end_s: float) -> None:
        step_s = (end_s - begin_s) / (_STEPS - 1)
        self._at_s = [begin_s + step_s * number for number in range(_STEPS)]

    def plot(
        self,
        title: str,
        columns: Sequence[tuple[Samples, Sequence[float | None]]],
        form: Callable[[float | None], str],
        high: float | None = None,
        low: float | None = 0.0,
    ) -> Series:
        """Return the mean of some columns, each with the samples that have its times."""
        spread = [self._spread(samples.at_s, column) for samples, column in columns]
        means: Column = []
        for together in zip(*spread, strict=True):
            known = [value for value in together if value is not None]
            means.append(sum(known) / len(known) if known else None)
        return Series(title, means, form, low, high, fills=True)

    def _spread(self, at_s: Sequence[float], column: Sequence[float | None]) -> Column:
        """Return a column in equal steps; a sample is the value since the previous sample."""
        usual_s = statistics.median(b - a for a, b in itertools.pairwise(at_s))
        values: Column = []
        for moment in self._at_s:
            number = bisect.bisect_left(at_s, moment)
            # Rounding may put the last step a little beyond the last sample.
            number = min(number, len(at_s) - 1)
            is_near = abs(at_s[number] - moment) <= _LATE * usual_s
            values.append(column[number] if is_near else None)
        return values
