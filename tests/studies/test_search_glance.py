"""What a monitor shows of a search."""

import json
import os
import time

import optuna
import pytest
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from tarmac.files import OwnerLock, Readings
from tarmac.studies import glance_search
from tarmac.studies.study.leases import Leases, status_of

HERE = os.uname().nodename
REQUEST = {"workload": "digits-mlp", "objective": ["val_accuracy"], "trials": 8}


def make(path, **changes):
    record = {
        "id": "study",
        "status": "running",
        "created_at": "2026-11-22T12:00:00Z",
        "request": REQUEST,
        "storage": None,
    }
    path.mkdir(exist_ok=True)
    (path / "study.json").write_text(json.dumps(record | changes))
    return path


def search(storage, direction="maximize"):
    """Search as Tarmac does: some trials are done, one of them as before, one was pruned.

    One is at work.
    """
    study = optuna.create_study(storage=storage, study_name="study", direction=direction)
    for value in (0.5, 0.75, 0.6):
        trial = study.ask()
        trial.report(value / 2, 1)
        study.tell(trial, value)
    study.tell(study.ask(), state=TrialState.PRUNED)
    at_work = study.ask()
    at_work.set_user_attr("owner", f"{HERE}-7-abcd")
    at_work.report(0.4, 1)
    at_work.report(0.5, 2)
    repeat = study.ask()
    repeat.set_user_attr("same_as", 1)
    study.tell(repeat, 0.75)
    study.enqueue_trial({})
    return study


@pytest.fixture
def journal(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path = make(tmp_path / "study")
    return path, JournalStorage(JournalFileBackend(str(path / "journal.log")))


@pytest.fixture
def worker(journal):
    directory = journal[0] / "workers"
    directory.mkdir()
    lock = OwnerLock(directory / f"{HERE}-7-abcd")
    assert lock.acquire()
    yield lock
    lock.release()


@pytest.mark.usefixtures("worker")
def test_a_search_at_work_is_shown_by_its_trials(journal):
    path, storage = journal
    search(storage)
    glance = glance_search(path)
    assert (glance.kind, glance.name, glance.status) == ("search", "study", "running")
    assert (glance.workload, glance.pids) == ("digits-mlp", (7,))
    assert (glance.done, glance.total) == (4, 8)
    assert (glance.metric_name, glance.metric) == ("val_accuracy", 0.75)
    (trial,) = glance.parts
    assert (trial.name, trial.epoch, trial.status) == ("study/trial-4", 2, "running")


@pytest.mark.usefixtures("worker")
def test_where_less_is_better_the_least_is_best(journal):
    path, storage = journal
    make(path, request=REQUEST | {"objective": ["val_loss"]})
    search(storage, "minimize")
    assert glance_search(path).metric == 0.5


def test_without_a_process_a_search_was_interrupted(journal):
    path, storage = journal
    search(storage)
    glance = glance_search(path)
    assert (glance.status, glance.pids, glance.parts) == ("interrupted", (), ())
    assert glance.done == 4


@pytest.mark.parametrize(("age_s", "status"), [(0.0, "running"), (1200.0, "interrupted")])
def test_a_monitor_and_lists_agree_on_workers_of_other_hosts(tmp_path, age_s, status):
    path = make(tmp_path / "study", locks="leases")
    lease = path / "workers" / "other-host-7-abcd"
    lease.parent.mkdir()
    holder = {"host": "other-host", "kernel": "x", "pid": 7, "start_ticks": 1, "nonce": "abcd"}
    lease.write_text(json.dumps(holder))
    os.utime(lease, (time.time() - age_s,) * 2)
    working = Leases(lease.parent, "leases").seem_living()
    assert status_of("running", is_worked_on=bool(working)) == status
    assert glance_search(path).status == status


def test_trials_in_a_file_of_sqlite_are_read(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url = f"sqlite:///{tmp_path / 'trials.db'}"
    path = make(tmp_path / "study", storage=url)
    search(RDBStorage(url))
    glance = glance_search(path)
    assert (glance.done, glance.metric) == (4, 0.75)


@pytest.mark.parametrize(
    "storage", ["postgresql://user@host/name", "sqlite:////nowhere/trials.db", "sqlite:///x"]
)
def test_trials_in_a_database_that_cannot_be_read_are_not_known(tmp_path, storage):
    glance = glance_search(make(tmp_path / "study", storage=storage))
    assert (glance.done, glance.metric) == (None, None)


@pytest.mark.usefixtures("worker")
def test_the_winner_that_is_trained_anew_is_a_part(journal):
    path, _ = journal
    best = path / "best" / "winner"
    best.mkdir(parents=True)
    (best / "run.json").write_text(json.dumps({"status": "running", "workload": "digits-mlp"}))
    lock = OwnerLock(best / ".lock")
    assert lock.acquire()
    try:
        (part,) = glance_search(path).parts
    finally:
        lock.release()
    assert (part.name, part.kind, part.path) == ("study/winner", "training", best)


def test_a_journal_with_lines_of_others_is_read_as_far_as_it_is_known(journal):
    path, storage = journal
    search(storage)
    with (path / "journal.log").open("a") as file:
        file.write('{"op_code": 99}\n7\n{"op_code": 6, "trial_id": 900, "state": 1}\nno\n{"op_co')
    assert glance_search(path).done == 4


def test_a_journal_is_read_only_as_far_as_it_has_grown(journal):
    path, storage = journal
    readings = Readings()
    study = search(storage)
    assert glance_search(path, readings).done == 4
    study.tell(study.ask(), 0.9)
    glance = glance_search(path, readings)
    assert (glance.done, glance.metric) == (5, 0.9)


def test_a_directory_that_is_no_search_is_unknown(tmp_path):
    assert glance_search(tmp_path / "none").status == "unknown"
