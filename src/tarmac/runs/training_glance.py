"""A monitor's view of a training, from a few small files of its directory, without models.

A monitor also reads runs of a newer Tarmac, and runs that are being written. So nothing is refused
here: missing or unexpected values count as unknown.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from tarmac.files import Fields, Readings, moment_after, read_holder
from tarmac.runs.glance import Glance
from tarmac.runs.judging import JudgedBy
from tarmac.runs.sampled import Sampled
from tarmac.runs.samples import samples_path

# Number of epochs that the median is taken of: earlier epochs may have had another batch size or
# another GPU.
_MEDIAN_OF = 20

# Number of last epochs for shares and estimated times.
_LATELY = 5

# In order of preference: results on unseen data first.
_SPLITS = ("test", "val", "train")

# The first checkpoint on a slow disk must not look like a hang.
_LEAST_STEP_S = 24.0

_WAITS = {"data": "data_wait_s", "ranks": "rank_wait_s"}


def glance_training(path: Path, readings: Readings | None = None) -> Glance:
    """Return the glance of a training; see `Glancer`."""
    readings = readings or Readings()
    record = readings.fields(path / "run.json")
    rows = [*readings.lines(path / "metrics.jsonl", _new_rows, _add_row)]
    sampled = readings.lines(samples_path(path), Sampled, Sampled.add)
    latest = rows[-1] if rows else Fields({})
    sessions = record.inners("sessions")
    session = sessions[-1] if sessions else Fields({})
    status = _status(path, record, readings)
    is_running = status == "running"
    elsewhere = _holder_elsewhere(path) if is_running else ""
    pid = session.whole("pid")
    written_at = _written_at(path / "metrics.jsonl") if rows else None
    checkpoint_at = _newest(path / "checkpoints")
    stepped_at = _moment(created_at := record.moment("created_at"), sampled.stepped_s)
    signs = [session.moment("started_at"), written_at, checkpoint_at, stepped_at]
    epochs = record.inner("configuration").whole("epochs")
    final = record.inner("metrics") if status == "completed" else Fields({})
    metric_name, metric = _metric(_judged_by(record), latest, final)
    launch = record.text("launch")
    energy_joules = record.number("energy_joules")
    return Glance(
        kind="training",
        name=path.name,
        path=path,
        status=status,
        workload=record.text("workload"),
        pids=(pid,) if pid is not None and is_running and not elsewhere else (),
        locks=(path / ".lock",),
        # Identifies processes that another launcher, such as torchrun, has started.
        variables={"TARMAC_LAUNCH": launch} if launch else {},
        uuids=_uuids(record, sampled),
        host=elsewhere,
        created_at=created_at,
        started_at=session.moment("started_at"),
        epoch=latest.whole("epoch") if rows else 0 if record else None,
        epochs=epochs,
        loss=latest.number("loss"),
        metric_name=metric_name,
        metric=metric,
        samples_per_s=latest.number("samples_per_s"),
        eta_s=_eta_s(rows, epochs, written_at) if is_running else None,
        checkpoint_at=checkpoint_at,
        active_at=max((sign for sign in signs if sign is not None), default=None),
        step_s=_median_s(rows) or _first_epoch_s(sampled.between_steps_s),
        waits=_waits(rows),
        gpus_active_at=sampled.active_at(created_at),
        energy_joules=sampled.total_joules if energy_joules is None else energy_joules,
        ranks=_ranks(record),
        retries=max(0, len(sessions) - 1),
        note=(record.text("error") or "") if status == "failed" else "",
    )


def _new_rows() -> deque[Fields]:
    return deque(maxlen=_MEDIAN_OF)


def _add_row(rows: deque[Fields], row: object) -> None:
    if isinstance(row, dict):
        rows.append(Fields(row))


def _status(path: Path, record: Fields, readings: Readings) -> str:
    status = record.text("status") or "unknown"
    return "interrupted" if status == "running" and not readings.is_held(path / ".lock") else status


def _holder_elsewhere(path: Path) -> str:
    """Return the host that works on a run; empty for this host or an unknown one."""
    with contextlib.suppress(OSError):
        holder = read_holder(path / ".lock")
        if holder is not None and holder.host != os.uname().nodename:
            return holder.host
    return ""


def _judged_by(record: Fields) -> JudgedBy:
    metric = record.inner("judged_by").text("metric")
    return JudgedBy() if metric is None else JudgedBy(metric)


def _metric(judged: JudgedBy, latest: Fields, final: Fields) -> tuple[str | None, float | None]:
    finals = [judged.of(split) for split in _SPLITS]
    # The training loss has a field of its own.
    others = [name for name in (judged.of("val"), judged.metric) if name != "loss"]
    for fields, names in ((final, finals), (latest, others)):
        for name in names:
            if (value := fields.number(name)) is not None:
                return name, value
    return None, None


def _median_s(rows: Sequence[Fields]) -> float | None:
    """Return the median duration of an epoch, after which a training regularly writes a line."""
    seconds = _values(rows, "seconds")
    # For an even number, the larger of the middle two: the measure is not that exact.
    return sorted(seconds)[len(seconds) // 2] if len(seconds) > 1 else None


def _first_epoch_s(between_steps_s: float | None) -> float | None:
    """Return the usual interval in the first epoch: that of steps, but long enough for scores."""
    return None if between_steps_s is None else max(between_steps_s, _LEAST_STEP_S)


def _moment(created_at: datetime | None, after_s: float | None) -> datetime | None:
    if created_at is None or after_s is None:
        return None
    return moment_after(after_s, created_at)


def _eta_s(rows: Sequence[Fields], epochs: int | None, written_at: datetime | None) -> float | None:
    seconds = _values(rows[-_LATELY:], "seconds")
    if epochs is None or not seconds or written_at is None:
        return None
    epoch_s = sum(seconds) / len(seconds)
    left_s = (epochs - (rows[-1].whole("epoch") or 0)) * epoch_s
    since_s = max(0.0, time.time() - written_at.timestamp())
    # The current epoch counts at most as one epoch, however long it takes.
    return max(0.0, left_s - min(since_s, epoch_s))


def _waits(rows: Sequence[Fields]) -> dict[str, float]:
    """Return the shares of the last epochs spent waiting, by cause, as far as recorded."""
    shares: dict[str, float] = {}
    for name, key in _WAITS.items():
        recent_rows = [row for row in rows[-_LATELY:] if row.number(key) is not None]
        seconds = sum(_values(recent_rows, "seconds"))
        if seconds > 0:
            shares[name] = min(1.0, max(0.0, sum(_values(recent_rows, key)) / seconds))
    return shares


def _uuids(record: Fields, sampled: Sampled) -> tuple[str, ...]:
    """Return the recorded GPUs of a training on this host."""
    if sampled.uuids and sampled.host == os.uname().nodename:
        return sampled.uuids
    replicas = record.inner("parallel").inners("replicas")
    here = os.uname().nodename
    devices = [record.inner("device")]
    devices += [replica.inner("device") for replica in replicas if replica.text("host") == here]
    uuids = (device.text("uuid") for device in devices)
    return tuple(dict.fromkeys(uuid for uuid in uuids if uuid))


def _ranks(record: Fields) -> tuple[dict[str, object], ...]:
    """Return the speed of each rank in the last ended session; empty for a single process."""
    replicas = record.inner("parallel").inners("replicas")
    if len(replicas) < 2:
        return ()
    return tuple(
        {
            "rank": replica.whole("rank"),
            "host": replica.text("host"),
            "samples_per_s": replica.number("samples_per_s"),
            "waiting_s": replica.number("waiting_s"),
        }
        for replica in replicas
    )


def _newest(directory: Path) -> datetime | None:
    """Return the time of the newest checkpoint in a directory."""
    times: list[float] = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            # A checkpoint may be deleted during the loop.
            with contextlib.suppress(OSError):
                if entry.name.endswith(".safetensors"):
                    times.append(entry.stat().st_mtime)
    return moment_after(max(times)) if times else None


def _written_at(path: Path) -> datetime | None:
    try:
        return moment_after(path.stat().st_mtime)
    except OSError:
        return None


def _values(rows: Iterable[Fields], key: str) -> list[float]:
    return [value for row in rows if (value := row.number(key)) is not None]
