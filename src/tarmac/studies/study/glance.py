"""What a monitor shows of a search, from its record and its trials, without Optuna.

The journal is Optuna's, whose operations have numbers; only those that say how far the trials are
are read. Of databases SQLite's files are read, by Python itself; what is in others is not known.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tarmac.files import Fields, Readings
from tarmac.runs import Glance, glance_training

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Optuna's, of its journal.
_CREATE_TRIAL, _SET_STATE, _SET_INTERMEDIATE, _SET_ATTRIBUTE = 4, 6, 7, 8
_RUNNING, _COMPLETE, _PRUNED, _FAILED = range(4)
_STATES = {"RUNNING": _RUNNING, "COMPLETE": _COMPLETE, "PRUNED": _PRUNED, "FAIL": _FAILED}

# The attribute of a trial whose network an earlier one has trained: its number.
_SAME_AS = "same_as"

# All that searches could be judged by before their records said which end is better.
_MAXIMIZED = frozenset({"val_accuracy"})

# A database that somebody writes to is not waited for.
_DATABASE_WITHIN_S = 0.1

_SQLITE = "sqlite:///"


class _Worker(NamedTuple):
    host: str
    pid: int
    lock: Path


@dataclasses.dataclass
class _Trial:
    state: int
    value: float | None = None
    epoch: int | None = None
    owner: str = ""
    # Known from an earlier trial, and not trained: what ends a search does not count it.
    is_repeat: bool = False


@dataclasses.dataclass
class _Trials:
    """Those of a journal, in their order, and how many there are in each state."""

    trials: list[_Trial] = dataclasses.field(default_factory=list)

    def count(self, *states: int) -> int:
        return sum(trial.state in states and not trial.is_repeat for trial in self.trials)

    def best(self, *, least: bool) -> float | None:
        values = [t.value for t in self.trials if t.state == _COMPLETE and t.value is not None]
        return (min if least else max)(values, default=None)


def glance_search(path: Path, readings: Readings | None = None) -> Glance:
    """Return what there is to see of a search; see `tarmac.runs.Glancer`."""
    readings = readings or Readings()
    record = readings.fields(path / "study.json")
    request = record.inner("request")
    workers = _workers(path, readings)
    status = record.text("status") or "unknown"
    if workers:
        status = "running"
    elif status == "running":
        status = "interrupted"
    trials = _trials(path, record, readings)
    names = request.values.get("objective")
    objective = str(names[0]) if isinstance(names, list) and names else "val_accuracy"
    directions = record.values.get("directions")
    is_least = objective not in _MAXIMIZED
    if isinstance(directions, list) and directions:
        is_least = directions[0] == "min"
    here = os.uname().nodename
    return Glance(
        kind="search",
        name=path.name,
        path=path,
        status=status,
        workload=request.text("workload"),
        pids=tuple(worker.pid for worker in workers if worker.host == here),
        locks=tuple(worker.lock for worker in workers),
        created_at=record.moment("created_at"),
        metric_name=objective,
        metric=None if trials is None else trials.best(least=is_least),
        done=None if trials is None else trials.count(_COMPLETE, _PRUNED, _FAILED),
        total=_total(request),
        note=(record.text("error") or "") if status == "failed" else "",
        parts=(*_at_work(path, trials), *_winners(path, readings)) if workers else (),
    )


def _workers(path: Path, readings: Readings) -> Sequence[_Worker]:
    """Return the processes that work on a study."""
    try:
        locks = sorted((path / "workers").iterdir())
    except OSError:
        return ()
    workers = []
    for lock in locks:
        # See `Leases.work` for the name, in which only the host's may have a dash.
        host, pid, _ = ("", "", "", *lock.name.rsplit("-", 2))[-3:]
        if pid.isdecimal() and not lock.name.startswith(".") and readings.is_held(lock):
            workers.append(_Worker(host, int(pid), lock))
    return workers


def _trials(path: Path, record: Fields, readings: Readings) -> _Trials | None:
    storage = record.text("storage")
    if storage is None:
        return readings.lines(path / "journal.log", _Trials, _add)
    if storage.startswith(_SQLITE):
        return _in_database(Path(storage.removeprefix(_SQLITE)), record.text("id") or "")
    return None


def _add(found: _Trials, value: object) -> None:
    """Change what is known of trials by an entry of the journal."""
    entry = Fields.of(value)
    operation = entry.whole("op_code")
    if operation == _CREATE_TRIAL:
        trial = _Trial(state=entry.whole("state") or _RUNNING, value=_first_value(entry))
        trial.owner = entry.inner("user_attrs").text("owner") or ""
        trial.is_repeat = _SAME_AS in entry.inner("user_attrs").values
        found.trials.append(trial)
        return
    number = entry.whole("trial_id")
    if number is None or not 0 <= number < len(found.trials):
        return
    trial = found.trials[number]
    if operation == _SET_STATE:
        state = entry.whole("state")
        trial.state = trial.state if state is None else state
        trial.value = _first_value(entry)
    elif operation == _SET_INTERMEDIATE:
        trial.epoch = entry.whole("step")
    elif operation == _SET_ATTRIBUTE:
        attribute = entry.inner("user_attr")
        trial.owner = attribute.text("owner") or trial.owner
        trial.is_repeat |= _SAME_AS in attribute.values


def _first_value(entry: Fields) -> float | None:
    values = entry.values.get("values")
    return entry.number("value") if not isinstance(values, list) else _number(values)


def _number(values: Sequence[object]) -> float | None:
    return Fields({"first": values[0]}).number("first") if values else None


def _in_database(path: Path, study: str) -> _Trials | None:
    query = (
        "select t.state, v.value, a.key is not null from trials t join studies s using (study_id) "
        "left join trial_values v on v.trial_id = t.trial_id and v.objective = 0 "
        "left join trial_user_attributes a on a.trial_id = t.trial_id and a.key = ? "
        "where s.study_name = ? order by t.number"
    )
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_DATABASE_WITHIN_S)
        ) as database:
            rows = database.execute(query, (_SAME_AS, study)).fetchall()
    except (sqlite3.Error, ValueError):
        return None
    return _Trials(
        [
            _Trial(_STATES.get(state, -1), value, is_repeat=bool(is_repeat))
            for state, value, is_repeat in rows
        ]
    )


def _total(request: Fields) -> int | None:
    """Return after how many trials a search ends, where it is a number of them that ends it."""
    return request.whole("trials")


def _at_work(path: Path, trials: _Trials | None) -> Iterator[Glance]:
    for number, trial in enumerate(() if trials is None else trials.trials):
        if trial.state == _RUNNING:
            yield Glance(
                kind="training",
                name=f"{path.name}/trial-{number}",
                path=path,
                status="running",
                epoch=trial.epoch,
            )


def _winners(path: Path, readings: Readings) -> Iterator[Glance]:
    """Return the winner while it is trained anew, in a directory of its own."""
    for run in sorted(path.glob("best/*/run.json")):
        glance = glance_training(run.parent, readings)
        if glance.status == "running":
            yield dataclasses.replace(glance, name=f"{path.name}/{glance.name}")
