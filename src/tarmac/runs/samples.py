"""A training's own history of its GPUs and its host: ``samples.jsonl`` beside the metrics.

A session of the training, one after each start, has a line that names its GPUs; then comes a line
every few seconds. Lines are thinned so that a training of weeks has no more of them than one of
hours. Whoever reads it leaves out what it does not know, so that later versions may add to it.

Each host of a training has a file: ``samples.jsonl`` is that of the one that leads, and
``samples-RANK.jsonl`` that of another, by the first rank on it.

Example:
    >>> samples = read_samples(run.path)
    >>> [(gpu.name, max(w for w in gpu.power_watts if w)) for gpu in samples.gpus]
    [('NVIDIA H100 80GB HBM3', 612.4)]
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tarmac.errors import TarmacError
from tarmac.files import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

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
    """Something that happened to the training, on the samples' time axis.

    Attributes:
        at_s: Seconds since the run was created.
        kind: ``start`` of the first session, ``restart`` of every other; ``workers_lost`` where
            `ddp` begins again from a checkpoint; ``end`` of a session that ended by itself: one
            that was killed has none.
        text: Why, in words; empty where there is nothing to say.
    """

    at_s: float
    kind: EventKind
    text: str = ""


@dataclasses.dataclass(frozen=True)
class GpuSamples:
    """One GPU over the training: columns as long as `Samples.at_s`, None where it did not say.

    Attributes:
        uuid: UUID of the GPU, or of the MIG slice.
        index: The driver's; of a slice, that of its GPU.
        name: The chip's, or the slice's.
        power_limit_watts: Power limit in watts, as read in the last session.
        memory_total_bytes: Size of its memory in bytes, as read in the last session.
        max_sm_clock_mhz: Highest SM clock in MHz, as read in the last session.
        utilization_ratio: Share of the time in which a kernel ran, 0 to 1.
        tensor_ratio: Share of it in which tensor cores worked, where the driver counts it.
        memory_used_bytes: Memory in use by all processes, in bytes.
        power_watts: Power draw of the whole card, in watts.
        temperature_c: Temperature of the chip, in degrees Celsius.
        sm_clock_mhz: SM clock of the GPU, in MHz.
        energy_joules: Used in this training until then, in all its sessions.
        throttle_reasons: Why clocks were lowered, of `Gpu.slowdowns`; empty for not, None where it
            is not known.
        throttled_s: Seconds of this training until then in which clocks were lowered, by ``power``
            and ``thermal``; None where it is not known.
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
    """What was sampled on one host of a training; all columns are as long as `at_s`.

    Attributes:
        host: The host's name; of several sessions the last one's.
        at_s: Seconds since the run was created, ascending. Each point is the mean since the one
            before it.
        gpus: Those that it trained on, by index.
        cpu_count: Cores that it might use, as the last session found it.
        memory_total_bytes: Memory of the host, or the limit of its control group, in bytes.
        cpu_ratio: Share of those cores in use by all processes, 0 to 1.
        memory_used_bytes: Memory in use by all processes, in bytes.
        throttled_ratio: Share of the control group's periods in which its quota of CPU ran out.
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
        """What the GPUs have used in this training so far; None where none of them says."""
        joules = [last for gpu in self.gpus if (last := _last(gpu.energy_joules)) is not None]
        return sum(joules) if joules else None

    @property
    def throttled_s(self) -> dict[str, float] | None:
        """Seconds in which clocks were lowered, by why, of the GPU that has most; None: unknown."""
        times = [last for gpu in self.gpus if (last := _last(gpu.throttled_s)) is not None]
        if not times:
            return None
        return {name: max(each.get(name, 0.0) for each in times) for each in times for name in each}


def samples_path(directory: Path, rank: int = 0) -> Path:
    """Return where the host of a rank, the first one on it, writes its samples.

    Args:
        directory: Directory of the run, which holds the sample files.
        rank: 0 for the host that leads.
    """
    return directory / (SAMPLES if rank == 0 else f"samples-{rank}.jsonl")


def read_samples(path: Path) -> Samples:
    """Read the samples of one host.

    Args:
        path: The run's directory, for the host that leads; or a file of samples.

    Returns:
        The samples; without any point where there is no such file, where it cannot be read, and
        where the training was told not to sample. Half a line and what is no sample are left out.
    """
    file = path if path.suffix == ".jsonl" else path / SAMPLES
    try:
        lines = read_lines(file).values if file.is_file() else ()
    except (OSError, TarmacError):
        return Samples()
    return _samples([line for line in lines if _is_line(line)])


def read_all_samples(directory: Path) -> tuple[Samples, ...]:
    """Read the samples of all hosts of a training, the one that leads first.

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
    # A clock that was put back between two sessions must not turn the axis around.
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
    rows = [_of_gpu(point, uuid) for point in points]
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


def _of_gpu(point: dict[str, Any], uuid: str) -> dict[str, Any]:
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
    """Return a finite number of a line; None where there is none, or something else."""
    value = line.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # Compared so, as JSON has whole numbers that no float can hold.
    return value if -_LARGEST <= value <= _LARGEST else None


def _whole(line: dict[str, Any], key: str) -> int | None:
    value = number_in(line, key)
    return None if value is None else int(value)


def _text(line: dict[str, Any], key: str) -> str:
    value = line.get(key)
    return value if isinstance(value, str) else ""


def _last(column: Sequence[_T | None]) -> _T | None:
    return next((value for value in reversed(column) if value is not None), None)
