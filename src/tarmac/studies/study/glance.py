"""A search as a monitor shows it, read from its record and its trials without Optuna.

Only those operations of Optuna's journal are read that show the progress of trials. Python itself
reads SQLite files; the trials in other databases are unknown.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tarmac.files import Fields, Readings
from tarmac.runs import Glance, glance_training
from tarmac.studies.study.leases import is_long_silent, lease_names, status_of

# Operation codes of Optuna's journal.
_CREATE_TRIAL, _SET_STATE, _SET_INTERMEDIATE, _SET_ATTRIBUTE = 4, 6, 7, 8
_RUNNING, _COMPLETE, _PRUNED, _FAILED = range(4)
_STATES = {"RUNNING": _RUNNING, "COMPLETE": _COMPLETE, "PRUNED": _PRUNED, "FAIL": _FAILED}

# Attribute of a trial with the number of the earlier trial that has trained the same network.
_SAME_AS = "same_as"

# The maximized objectives of old records, which have no directions.
_MAXIMIZED = frozenset({"val_accuracy"})

# Do not wait for a database that another process writes to.
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
    # A repeat of an earlier trial is not trained, and the limit of a search does not count it.
    is_repeat: bool = False


@dataclasses.dataclass
class _Trials:
    """The trials of a study, in their order."""

    trials: list[_Trial] = dataclasses.field(default_factory=list)

    def count(self, *states: int) -> int:
        return sum(trial.state in states and not trial.is_repeat for trial in self.trials)

    def best(self, *, least: bool) -> float | None:
        values = [t.value for t in self.trials if t.state == _COMPLETE and t.value is not None]
        return (min if least else max)(values, default=None)


def glance_search(path: Path, readings: Readings | None = None) -> Glance:
    """Return a search as a monitor shows it; see `tarmac.runs.Glancer`."""
    readings = readings or Readings()
    record = readings.fields(path / "study.json")
    request = record.inner("request")
    workers = _workers(path, record.text("locks") or "kernel", readings)
    status = status_of(record.text("status") or "unknown", is_worked_on=bool(workers))
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


def _workers(path: Path, locks: str, readings: Readings) -> Sequence[_Worker]:
    """Return the processes that seem to work on a study, by the rules of `Leases.seem_living`."""
    workers = []
    with contextlib.suppress(OSError):
        for name in lease_names(path / "workers"):
            lock = path / "workers" / name
            # `Leases.work` makes the name, HOST-PID-TOKEN; only the host may contain a dash.
            host, pid, _ = ("", "", "", *name.rsplit("-", 2))[-3:]
            is_alive = readings.is_held(lock)
            if locks == "kernel":
                is_alive = is_alive or readings.is_on_network(lock)
            else:
                is_alive = is_alive and not is_long_silent(lock)
            if pid.isdecimal() and is_alive:
                workers.append(_Worker(host, int(pid), lock))
    return workers


def _trials(path: Path, record: Fields, readings: Readings) -> _Trials | None:
    storage = record.text("storage")
    if storage is None:
        return readings.lines(path / "journal.log", _Trials, _add)
    if storage.startswith(_SQLITE):
        return _in_database(Path(storage.removeprefix(_SQLITE)), record.text("id") or "")
    return None


def _add(tried: _Trials, value: object) -> None:
    """Apply an entry of the journal to the trials."""
    entry = Fields.of(value)
    operation = entry.whole("op_code")
    if operation == _CREATE_TRIAL:
        trial = _Trial(state=entry.whole("state") or _RUNNING, value=_first_value(entry))
        trial.owner = entry.inner("user_attrs").text("owner") or ""
        trial.is_repeat = _SAME_AS in entry.inner("user_attrs").values
        tried.trials.append(trial)
        return
    number = entry.whole("trial_id")
    if number is None or not 0 <= number < len(tried.trials):
        return
    trial = tried.trials[number]
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
    """Return the limit of trials of a search; None without one."""
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
    """Yield the retraining of the winner while it runs."""
    for run in sorted(path.glob("best/*/run.json")):
        glance = glance_training(run.parent, readings)
        if glance.status == "running":
            yield dataclasses.replace(glance, name=f"{path.name}/{glance.name}")
