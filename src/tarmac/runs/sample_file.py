"""The writer of ``samples.jsonl``, which appends samples and thins them as the file grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.files import append_lines, journal_text, read_lines, write_text

MAX_POINTS = 2000

# Counters, which only grow: a merged point has the last value.
_COUNTERS = ("energy_joules", "throttled_s", "steps")


class SampleFile:
    """The file of one host's samples of a training, in all its sessions.

    A point is the mean of a number of readings. When the file has ``max_points`` points, each two
    become one, and the number of readings per point doubles.

    Args:
        path: Path of the file; an existing file is continued.
        max_points: Maximum number of points in the file. Default 2000.

    Attributes:
        counted: Last values of the counters ``energy_joules`` and ``throttled_s``, by UUID of the
            GPU.

    Raises:
        StorageError: The existing file cannot be read.
    """

    def __init__(self, path: Path, max_points: int = MAX_POINTS) -> None:
        self._path = path
        self._max_points = max_points
        points = [line for line in _lines(path) if line.get("kind") == "sample"]
        self._num_points = len(points)
        self._readings_each = max((_readings(point) for point in points), default=1)
        self._pending: list[dict[str, Any]] = []
        self.counted: dict[str, dict[str, Any]] = {}
        for point in points:
            for uuid, row in _gpus(point).items():
                counters = {key: row[key] for key in _COUNTERS if row.get(key) is not None}
                self.counted.setdefault(uuid, {}).update(counters)

    def note(self, kind: str, at_s: float, **facts: Any) -> None:
        """Append an event.

        Args:
            kind: ``session``, ``workers_lost`` or ``end``.
            at_s: Time of the event, in seconds since the run was created.
            facts: Further keys of the event.

        Raises:
            StorageError: The event could not be written.
        """
        append_lines(self._path, [{"kind": kind, "at_s": round(at_s, 3), **facts}])

    def add(
        self, at_s: float, host: Mapping[str, Any], gpus: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Add a reading; write a point once there are enough readings.

        Args:
            at_s: Time of the reading, in seconds since the run was created.
            host: Values of the host by name; None for an unknown value.
            gpus: Values of each GPU by name, by UUID of the GPU.

        Raises:
            StorageError: The point could not be written, and is lost; the file is unchanged.
        """
        rows = {uuid: _known(row) for uuid, row in gpus.items()}
        reading = {"kind": "sample", "at_s": round(at_s, 3), "readings": 1, **_known(host)}
        self._pending.append(reading | ({"gpus": rows} if rows else {}))
        if len(self._pending) >= self._readings_each:
            self.flush()

    def flush(self) -> None:
        """Write the readings added so far as a point.

        Raises:
            StorageError: The point could not be written, and is lost; the file is unchanged.
        """
        pending, self._pending = self._pending, []
        if not pending:
            return
        append_lines(self._path, [merged(pending)])
        self._num_points += 1
        if self._num_points >= self._max_points:
            self._thin()

    def _thin(self) -> None:
        """Merge each two points into one; lines of other kinds stay where they are."""
        kept: list[dict[str, Any]] = []
        for line in _lines(self._path):
            is_second = (
                line.get("kind") == "sample"
                and bool(kept)
                and kept[-1].get("kind") == "sample"
                and _readings(kept[-1]) <= self._readings_each
            )
            if is_second:
                kept[-1] = merged([kept[-1], line])
            else:
                kept.append(line)
        write_text(self._path, journal_text(kept))
        self._readings_each *= 2
        self._num_points = sum(line.get("kind") == "sample" for line in kept)


def merged(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge consecutive points into one.

    Numbers become means, weighted by the readings of each point. Counters keep the last value.
    Reasons are the union of all points' reasons.
    """
    weights = [_readings(point) for point in points]
    own = [{k: v for k, v in point.items() if k not in _NOT_VALUES} for point in points]
    uuids = dict.fromkeys(uuid for point in points for uuid in _gpus(point))
    gpus = {
        uuid: _merged_rows([_gpus(point).get(uuid, {}) for point in points], weights)
        for uuid in uuids
    }
    result = {"kind": "sample", "at_s": points[-1]["at_s"], "readings": sum(weights)}
    return result | _merged_rows(own, weights) | ({"gpus": gpus} if gpus else {})


_NOT_VALUES = ("kind", "at_s", "readings", "gpus")


def _merged_rows(rows: Sequence[Mapping[str, Any]], weights: Sequence[int]) -> dict[str, Any]:
    merged_row: dict[str, Any] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        weighted = [
            (row[key], weight) for row, weight in zip(rows, weights, strict=True) if key in row
        ]
        values = [value for value, _ in weighted]
        if key not in _COUNTERS and all(isinstance(value, list) for value in values):
            merged_row[key] = sorted({reason for value in values for reason in value})
        elif key not in _COUNTERS and all(isinstance(value, int | float) for value in values):
            weight_of_all = sum(weight for _, weight in weighted)
            mean = sum(value * weight for value, weight in weighted) / weight_of_all
            is_whole = all(isinstance(value, int) for value in values)
            merged_row[key] = round(mean) if is_whole else _short(mean)
        else:
            merged_row[key] = values[-1]
    return merged_row


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out unknown values and insignificant digits."""
    return {key: _short(value) for key, value in row.items() if value is not None}


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def _readings(point: Mapping[str, Any]) -> int:
    readings = point.get("readings", 1)
    return readings if isinstance(readings, int) and readings > 0 else 1


def _gpus(point: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    gpus = point.get("gpus")
    rows = gpus.items() if isinstance(gpus, dict) else ()
    return {uuid: row for uuid, row in rows if isinstance(row, dict)}


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        return []
    return [
        line
        for line in read_lines(path).values
        if isinstance(line, dict) and isinstance(line.get("at_s"), int | float)
    ]
