"""Samples of a training's GPUs and host over time: ``samples.jsonl`` beside the metrics.

Each session of the training, after a start or a resume, begins with a line that names its GPUs. A
line of samples follows every few seconds. Lines are thinned, so that a training of weeks has no
more of them than a training of hours. Readers ignore unknown keys, so that later versions may add
some.

Each host of a training has a file: ``samples.jsonl`` for the leading host, and
``samples-RANK.jsonl`` for another host, by the first rank on it.

Example:
    >>> samples = read_samples(run.path)
    >>> [(gpu.name, max(w for w in gpu.power_watts if w)) for gpu in samples.gpus]
    [('NVIDIA H100 80GB HBM3', 612.4)]
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from tarmac.errors import TarmacError
from tarmac.files import read_lines

SAMPLES = "samples.jsonl"

_T = TypeVar("_T")

Column = tuple[float | None, ...]

EventKind = Literal["start", "restart", "workers_lost", "end"]

_LARGEST = sys.float_info.max

_KINDS: dict[str, EventKind] = {
    "session": "start",
    "workers_lost": "workers_lost",
    "end": "end",
}


@dataclasses.dataclass(frozen=True)
class SampleEvent:
    """An event of the training, on the samples' time axis.

    Attributes:
        at_s: Seconds since the run was created.
        kind: ``start`` of the first session, ``restart`` of every other; ``workers_lost`` where
            `ddp` restarts from a checkpoint; ``end`` of a session that was not killed.
        text: Reason of the event; empty where there is none.
    """

    at_s: float
    kind: EventKind
    text: str = ""


@dataclasses.dataclass(frozen=True)
class GpuSamples:
    """The samples of one GPU: columns as long as `Samples.at_s`, None for a missing value.

    Attributes:
        uuid: UUID of the GPU, or of the MIG slice.
        index: Index of the GPU in the driver, or of a MIG slice's GPU.
        name: Name of the chip, or of the MIG slice.
        power_limit_watts: Power limit in watts, in the last session.
        memory_total_bytes: Size of the GPU's memory in bytes, in the last session.
        max_sm_clock_mhz: Highest SM clock in MHz, in the last session.
        utilization_ratio: Share of time in which a kernel ran, 0 to 1.
        tensor_ratio: Share of time in which tensor cores worked, 0 to 1, where the driver counts
            it.
        memory_used_bytes: Memory in use by all processes, in bytes.
        power_watts: Power draw of the whole card, in watts.
        temperature_c: Temperature of the chip, in degrees Celsius.
        sm_clock_mhz: SM clock of the GPU, in MHz.
        energy_joules: Energy used so far in all sessions of this training, in joules.
        throttle_reasons: Reasons for lowered clocks, from `Gpu.slowdowns`; empty for full clocks,
            None where unknown.
        throttled_s: Seconds so far with lowered clocks in all sessions of this training, by
            ``power`` and ``thermal``; None where unknown.
    """

    uuid: str
    index: int | None = None
    name: str = ""
    power_limit_watts: float | None = None
    memory_total_bytes: int | None = None
    max_sm_clock_mhz: int | None = None
    utilization_ratio: Column = ()
    tensor_ratio: Column = ()
    memory_used_bytes: Column = ()
    power_watts: Column = ()
    temperature_c: Column = ()
    sm_clock_mhz: Column = ()
    energy_joules: Column = ()
    throttle_reasons: tuple[tuple[str, ...] | None, ...] = ()
    throttled_s: tuple[dict[str, float] | None, ...] = ()


@dataclasses.dataclass(frozen=True)
class Samples:
    """The samples of one host of a training; all columns are as long as `at_s`.

    Attributes:
        host: Name of the host in the last session.
        at_s: Seconds since the run was created, ascending. Each point is the mean since the
            previous point.
        gpus: Samples of the GPUs that the training used, by index.
        cpu_count: Number of cores available to the training in the last session.
        memory_total_bytes: Memory of the host, or the limit of its control group, in bytes.
        cpu_ratio: Share of those cores in use by all processes, 0 to 1.
        memory_used_bytes: Memory in use by all processes, in bytes.
        throttled_ratio: Share of the control group's periods in which its CPU quota ran out.
        events: Starts, restarts and ends, in order.
    """

    host: str = ""
    at_s: tuple[float, ...] = ()
    gpus: tuple[GpuSamples, ...] = ()
    cpu_count: float | None = None
    memory_total_bytes: int | None = None
    cpu_ratio: Column = ()
    memory_used_bytes: Column = ()
    throttled_ratio: Column = ()
    events: tuple[SampleEvent, ...] = ()

    @property
    def energy_joules(self) -> float | None:
        """The energy of all GPUs in this training so far, in joules; None where none reports it."""
        joules = [last for gpu in self.gpus if (last := _last(gpu.energy_joules)) is not None]
        return sum(joules) if joules else None

    @property
    def throttled_s(self) -> dict[str, float] | None:
        """The seconds with lowered clocks by reason, the maximum of all GPUs; None if unknown."""
        times = [last for gpu in self.gpus if (last := _last(gpu.throttled_s)) is not None]
        if not times:
            return None
        return {name: max(own.get(name, 0.0) for own in times) for own in times for name in own}


def samples_path(directory: Path, rank: int = 0) -> Path:
    """Return the path of the samples of a host.

    Args:
        directory: Directory of the run, which holds the sample files.
        rank: First rank on the host. Default 0: the leading host.
    """
    return directory / (SAMPLES if rank == 0 else f"samples-{rank}.jsonl")


def read_samples(path: Path) -> Samples:
    """Read the samples of one host.

    Args:
        path: Directory of the run, for its leading host, or a file of samples.

    Returns:
        The samples, without damaged lines. They are empty without a readable file, and for a
        training without sampling.
    """
    file = path if path.suffix == ".jsonl" else path / SAMPLES
    try:
        lines = read_lines(file).values if file.is_file() else ()
    except (OSError, TarmacError):
        return Samples()
    return _samples([line for line in lines if _is_line(line)])


def read_all_samples(directory: Path) -> tuple[Samples, ...]:
    """Read the samples of all hosts of a training, the leading host first.

    Args:
        directory: Directory of the run, which holds the sample files.
    """
    others = [path for path in directory.glob("samples-*.jsonl") if path.stem[8:].isdecimal()]
    others.sort(key=lambda path: int(path.stem[8:]))
    hosts = [read_samples(directory), *map(read_samples, others)]
    return tuple(samples for samples in hosts if samples.at_s or samples.events)


def _is_line(line: Any) -> bool:
    return isinstance(line, dict) and number_in(line, "at_s") is not None


def _samples(lines: Sequence[dict[str, Any]]) -> Samples:
    sessions = [line for line in lines if line.get("kind") == "session"]
    points = [line for line in lines if line.get("kind") == "sample"]
    # The axis must ascend even if the clock was set back between two sessions.
    points.sort(key=lambda line: float(line["at_s"]))
    last = sessions[-1] if sessions else {}
    return Samples(
        host=_text(last, "host"),
        at_s=tuple(float(line["at_s"]) for line in points),
        gpus=_gpus(sessions, points),
        cpu_count=number_in(last, "cpu_count"),
        memory_total_bytes=_whole(last, "memory_total_bytes"),
        cpu_ratio=_column(points, "cpu_ratio"),
        memory_used_bytes=_column(points, "memory_used_bytes"),
        throttled_ratio=_column(points, "throttled_ratio"),
        events=_events(lines),
    )


def _events(lines: Iterable[dict[str, Any]]) -> tuple[SampleEvent, ...]:
    events: list[SampleEvent] = []
    for line in lines:
        kind = _KINDS.get(_text(line, "kind"))
        if kind is None:
            continue
        if kind == "start" and any(event.kind == "start" for event in events):
            kind = "restart"
        events.append(SampleEvent(float(line["at_s"]), kind, _text(line, "text")))
    return tuple(events)


def _gpus(
    sessions: Iterable[dict[str, Any]], points: Sequence[dict[str, Any]]
) -> tuple[GpuSamples, ...]:
    facts_by_uuid: dict[str, dict[str, Any]] = {}
    for session in sessions:
        gpus = session.get("gpus")
        for gpu in gpus if isinstance(gpus, list) else ():
            if isinstance(gpu, dict) and _text(gpu, "uuid"):
                facts_by_uuid[_text(gpu, "uuid")] = gpu
    samples = [_gpu(uuid, facts, points) for uuid, facts in facts_by_uuid.items()]
    return tuple(sorted(samples, key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.uuid)))


def _gpu(uuid: str, facts: dict[str, Any], points: Iterable[dict[str, Any]]) -> GpuSamples:
    rows = [_own(point, uuid) for point in points]
    return GpuSamples(
        uuid=uuid,
        index=_whole(facts, "index"),
        name=_text(facts, "name"),
        power_limit_watts=number_in(facts, "power_limit_watts"),
        memory_total_bytes=_whole(facts, "memory_total_bytes"),
        max_sm_clock_mhz=_whole(facts, "max_sm_clock_mhz"),
        utilization_ratio=_column(rows, "utilization_ratio"),
        tensor_ratio=_column(rows, "tensor_ratio"),
        memory_used_bytes=_column(rows, "memory_used_bytes"),
        power_watts=_column(rows, "power_watts"),
        temperature_c=_column(rows, "temperature_c"),
        sm_clock_mhz=_column(rows, "sm_clock_mhz"),
        energy_joules=_column(rows, "energy_joules"),
        throttle_reasons=tuple(_reasons(row.get("throttle_reasons")) for row in rows),
        throttled_s=tuple(_by_name(row.get("throttled_s")) for row in rows),
    )


def _own(point: dict[str, Any], uuid: str) -> dict[str, Any]:
    gpus = point.get("gpus")
    row = gpus.get(uuid) if isinstance(gpus, dict) else None
    return row if isinstance(row, dict) else {}


def _column(rows: Iterable[dict[str, Any]], key: str) -> Column:
    return tuple(number_in(row, key) for row in rows)


def _reasons(value: Any) -> tuple[str, ...] | None:
    return tuple(map(str, value)) if isinstance(value, list) else None


def _by_name(value: Any) -> dict[str, float] | None:
    if not isinstance(value, dict):
        return None
    numbers = {str(name): number_in(value, name) for name in value}
    return {name: seconds for name, seconds in numbers.items() if seconds is not None}


def number_in(line: dict[str, Any], key: str) -> float | None:
    """Return a finite number in a line; None where it is missing or of another type."""
    value = line.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # Not by conversion: JSON allows whole numbers that no float can hold.
    return value if -_LARGEST <= value <= _LARGEST else None


def _whole(line: dict[str, Any], key: str) -> int | None:
    value = number_in(line, key)
    return None if value is None else int(value)


def _text(line: dict[str, Any], key: str) -> str:
    value = line.get(key)
    return value if isinstance(value, str) else ""


def _last(column: Sequence[_T | None]) -> _T | None:
    return next((value for value in reversed(column) if value is not None), None)
