"""Several workers of a study: each takes its share, leaves in time, and returns what it had."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import shutil
import textwrap
import threading
import time
from pathlib import Path

import pytest
from optuna.trial import TrialState

import tarmac
from tarmac.errors import RequestError, TarmacError
from tarmac.files import Holder
from tarmac.jobs import plan_tasks
from tarmac.runs import Run
from tarmac.studies import Candidate, Choices, Silent, Study, Terms, Workers, time_left
from tarmac.studies.cluster.following import Following
from tarmac.studies.cluster.workers import most_workers_of, workers_job
from tarmac.studies.conclusion import WinnersProcess, conclude
from tarmac.studies.evaluation.choice import Chosen
from tarmac.studies.evaluation.in_processes import ProcessEvaluator, Training
from tarmac.studies.evaluation.slots import Slot
from tarmac.studies.loop import SearchLoop
from tarmac.studies.opening import open_study
from tarmac.studies.study.writer import StudyWriter
from tarmac.studies.trial_queue import TrialQueue
from tarmac.studies.verb import run_worker
from tarmac.testing.stand_in import StandIn
from tarmac.testing.stand_in import search_without_networks as search

FRAGILE = f"{Path(__file__).with_name('fragile.py')}:fragile"


def chosen(evaluator, **fields):
    fields = {"at_once": None, "close": lambda: None, "summary": "", **fields}
    return Chosen(evaluator=evaluator, **fields)


def work(study, evaluator, terms, *, stop=lambda: False, **fields):
    """Be a worker of a study; return why it is over, and why the worker left."""
    with study.leases.work() as owner:
        loop = SearchLoop(study, owner, Silent(), stop, terms)
        return loop.run(chosen(evaluator, **fields)), loop.leave


@pytest.fixture
def elsewhere(tmp_path):
    """Return a function that makes a worker of another host, and one that lets its beat grow."""
    ends = []

    def make(study, name="elsewhere-1", *, beats=False):
        path = study.path / "workers" / name
        path.parent.mkdir(exist_ok=True)
        # Three beats that are missed mean death, and on a busy machine they may come late.
        beat_s = 30.0 if beats else 0.2
        holder = Holder("elsewhere", "another kernel", 1, 1, "n0", beat_s=beat_s)
        path.write_text(json.dumps(dataclasses.asdict(holder)))
        if not beats:
            return name
        end = threading.Event()

        def beat():
            number = 0
            while not end.wait(0.05):
                number += 1
                text = json.dumps(dataclasses.asdict(dataclasses.replace(holder, beat=number)))
                draft = tmp_path / "draft"
                draft.write_text(text)
                draft.replace(path)

        thread = threading.Thread(target=beat)
        thread.start()
        ends.append((end, thread))
        return name

    yield make
    for end, thread in ends:
        end.set()
        thread.join()


def test_a_trial_of_a_worker_whose_host_was_lost_comes_back(make_study, elsewhere):
    whole = make_study(generations=2, population=6)
    search(whole)
    study = make_study(generations=2, population=6, is_shared=True)
    name = elsewhere(study)
    assert TrialQueue(study, name, Silent()).next().number == 0
    evaluator = StandIn()
    assert work(study, evaluator, Terms(workers=2))[0] == "2 generations are done"
    assert sorted(one.number for one in evaluator.seen) == list(range(len(whole.trials)))
    assert study.trials == whole.trials
    assert study.optuna.get_trials()[0].user_attrs["attempts"] == 2


def test_a_trial_of_a_worker_that_lives_is_left_to_it_and_the_others_leave(make_study, elsewhere):
    study = make_study(generations=1, population=4, is_shared=True)
    name = elsewhere(study, beats=True)
    assert TrialQueue(study, name, Silent()).next().number == 0
    evaluator = StandIn()
    assert work(study, evaluator, Terms(workers=2)) == (None, "others")
    assert [one.number for one in evaluator.seen] == [1, 2, 3]
    states = [trial.state for trial in study.optuna.get_trials()]
    assert states == [TrialState.RUNNING] + 3 * [TrialState.COMPLETE]


@pytest.mark.parametrize(
    ("fields", "shares"),
    [
        ({"generations": 1, "population": 8}, [2, 2, 1, 1, 1, 1]),
        ({"method": "random", "trials": 8}, [2, 2, 1, 1, 1, 1]),
    ],
)
def test_each_worker_takes_its_share_of_what_waits(make_study, fields, shares):
    study = make_study(is_shared=True, **fields)
    sizes = []

    class Counting(StandIn):
        def evaluate(self, candidates, report):
            batch = list(candidates)
            sizes.append(len(batch))
            yield from super().evaluate(batch, report)

    work(study, Counting(), Terms(workers=4), at_once=1000)
    assert sizes == shares


def test_a_worker_begins_nothing_that_takes_longer_than_it_has(make_study):
    study = make_study(generations=1, population=6, is_shared=True)
    left = [1e9]
    evaluator = StandIn(at_epoch=lambda progress: left.append(0.0 if progress.number == 2 else 1e9))
    terms = Terms(workers=2, time_left_s=lambda: left[-1])
    assert work(study, evaluator, terms) == (None, "time")
    assert [one.number for one in evaluator.seen] == [0, 1, 2]
    states = [trial.state for trial in study.optuna.get_trials()]
    assert states == 3 * [TrialState.COMPLETE] + 3 * [TrialState.WAITING]


def test_a_worker_with_too_little_time_for_any_network_fails_with_words(make_study, monkeypatch):
    study = make_study(generations=1, population=6, is_shared=True)
    monkeypatch.setattr("tarmac.studies.verb.choose_evaluator", lambda *_: chosen(StandIn()))
    with pytest.raises(TarmacError, match="a network takes about 0 s, and this worker had 0 s"):
        run_worker(study, Silent(), Terms(workers=2, time_left_s=lambda: 0.0))
    assert Study.open(study.path).record.status == "running"


def test_a_worker_begins_one_network_that_takes_longer_where_it_goes_on_elsewhere(make_study):
    study = make_study(generations=1, population=6, is_shared=True)
    left = [1e9]
    first = StandIn(at_epoch=lambda progress: left.append(0.0 if progress.number == 2 else 1e9))
    work(study, first, Terms(workers=2, time_left_s=lambda: left[-1]))
    short = Terms(workers=2, time_left_s=lambda: 1e-9)
    for goes_on, begun in ((False, []), (True, [3])):
        evaluator = StandIn()
        assert work(study, evaluator, short, goes_on=goes_on) == (None, "time")
        assert [one.number for one in evaluator.seen] == begun


def test_a_worker_that_is_ended_before_an_epoch_fails_as_the_next_would(make_study, monkeypatch):
    study = make_study(generations=1, population=6, is_shared=True)
    monkeypatch.setattr("tarmac.studies.verb.choose_evaluator", lambda *_: chosen(StandIn()))
    with pytest.raises(TarmacError, match="ended before it had trained an epoch"):
        run_worker(study, Silent(), Terms(workers=2), stop=lambda: True)
    assert Study.open(study.path).record.status == "running"


@pytest.mark.parametrize("leave", ["time", "stopped"])
def test_a_worker_that_only_waited_for_others_has_not_failed(
    make_study, elsewhere, monkeypatch, leave
):
    study = make_study(generations=2, population=3, is_shared=True)
    others = TrialQueue(study, elsewhere(study, beats=True), Silent())
    assert [others.next().number for _ in range(3)] == [0, 1, 2]
    monkeypatch.setattr("tarmac.studies.verb.choose_evaluator", lambda *_: chosen(StandIn()))
    looks = itertools.count()
    is_over = lambda: next(looks) > 5  # noqa: E731 - a name would say no more
    terms = Terms(workers=2, time_left_s=lambda: 0.0 if leave == "time" and is_over() else 1e9)
    stop = is_over if leave == "stopped" else lambda: False
    assert run_worker(study, Silent(), terms, stop=stop) == leave


def test_what_a_worker_trained_that_seemed_dead_counts_once(make_study):
    study = make_study(generations=1, population=3, is_shared=True)
    other = StudyWriter.open(study.path)

    def take_away(progress):
        if (progress.number, progress.epoch) == (1, 1):
            other.ledger.refresh()
            other.mark(1, "owner", "another")

    evaluator = StandIn(at_epoch=take_away)
    owners = []

    class Watching(Silent):
        def trial_done(self, study, trial):
            owners.append(trial.number)

    with study.leases.work() as owner:
        loop = SearchLoop(study, owner, Watching(), lambda: len(evaluator.seen) > 2)
        loop.run(chosen(evaluator))
    assert 1 not in owners
    assert study.optuna.get_trials()[1].state == TrialState.RUNNING


def test_a_study_in_sqlite_is_not_shared_by_hosts(make_study, tmp_path):
    study = make_study(storage=f"sqlite:///{tmp_path}/study.db")
    with pytest.raises(RequestError, match="which only one host may write"):
        study.shared()
    with pytest.raises(RequestError, match="storage is SQLite, which only one host may write"):
        tarmac.search(
            "digits-mlp",
            space={"hidden": [8, 16]},
            storage=f"sqlite:///{tmp_path}/other.db",
            cluster=Workers(on="local", count=2),
            output=tmp_path / "none",
        )
    assert not (tmp_path / "none").exists()


def test_a_study_is_shared_once_nobody_works_on_it(make_study):
    study = make_study()
    with (
        study.leases.work(),
        pytest.raises(RequestError, match="is in use by"),
    ):
        StudyWriter.open(study.path).shared()
    shared = study.shared()
    assert shared.record.locks == "leases"
    assert Study.open(study.path).record.locks == "leases"
    assert shared.shared() is shared


def test_a_search_is_not_resumed_beside_the_host_that_has_it_on_its_own_disk(
    make_study, monkeypatch
):
    study = make_study()
    monkeypatch.setattr(
        "tarmac.studies.opening.resume_study", lambda *_, **__: StudyWriter.open(study.path)
    )
    with study.leases.work() as owner:
        for room in ("opening", "study.leases"):
            monkeypatch.setattr(f"tarmac.studies.{room}.is_network", lambda _: True)
        # As that host's lock is seen from here.
        monkeypatch.setattr("tarmac.studies.study.leases.is_owned", lambda _: False)
        with pytest.raises(RequestError, match=f"is in use by {owner}"):
            open_study(resume=study.path)
    assert open_study(resume=study.path).record.locks == "leases"


def test_a_study_that_was_begun_here_is_gone_on_with_by_hosts(make_study):
    study = make_study()
    study.ledger.refresh()
    study.update(status="interrupted")
    shared = study.shared()
    shared.ledger.refresh()
    shared.update(status="running")
    assert Study.open(study.path).record.status == "running"


def test_workers_that_are_begun_again_and_again_and_train_nothing_are_stuck(make_study):
    study = make_study(generations=1, population=3, is_shared=True)
    following = Following(study, Silent())
    job = workers_job(study.path, Workers(on="local", count=1), 1)
    (task,) = plan_tasks(job, study.path)
    for _ in range(10):
        following.retrying(task, "the time limit of its job", 0.001)
    assert following.why_stuck == ""
    following.retrying(task, "the time limit of its job", 0.001)
    assert "was restarted 11 times: the time limit of its job" in following.why_stuck
    work(StudyWriter.open(study.path), StandIn(), Terms(workers=1))
    following.look()
    assert following.why_stuck == ""


def test_a_winner_that_takes_many_turns_to_train_is_no_standstill(make_study):
    study = make_study(generations=1, population=3, is_shared=True)
    work(StudyWriter.open(study.path), StandIn(), Terms(workers=1))
    following = Following(study, Silent())
    (task,) = plan_tasks(workers_job(study.path, Workers(on="local", count=1), 1), study.path)
    rows = study.path / "best" / "gated-1" / "metrics.jsonl"
    rows.parent.mkdir(parents=True)
    for turn in range(1, 31):
        # An epoch that it was not given the time to save is lost every other turn.
        rows.write_text('{"epoch": 1}\n' * (turn + turn % 2))
        following.retrying(task, "the time limit of its job", 0.001)
        following.look()
        assert following.why_stuck == ""
    for _ in range(10):
        rows.write_text("")
        following.retrying(task, "the time limit of its job", 0.001)
        following.look()
    assert "was restarted 11 times" in following.why_stuck


def test_workers_that_hang_once_the_study_is_over_are_waited_for_no_longer(make_study):
    study = make_study(is_shared=True)
    patient, quick = (Following(study, Silent(), leave_within_s=limit) for limit in (1e9, 0.0))
    for following in (patient, quick):
        following.look()
        assert not following.is_overdue
    StudyWriter.open(study.path).update(status="completed")
    for following in (patient, quick):
        following.look()
    assert (patient.is_overdue, quick.is_overdue) == (False, True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"population": 6}, 6),
        ({"population": 6, "trials": 4}, 4),
        ({"method": "random", "trials": 30}, 30),
        ({"method": "random", "generations": 2, "population": 5}, 10),
        ({"method": "brute"}, 12),
        ({"method": "random", "budget": "1h"}, 12),
    ],
)
def test_there_are_never_more_workers_than_trials(make_study, fields, expected):
    study = make_study({"a": Choices((1, 2, 3)), "b": Choices((1, 2, 3, 4))}, **fields)
    most = most_workers_of(study)
    assert most == min(expected, 12)
    job = workers_job(study.path, Workers(on="local", count=1000), most)
    assert job.tasks[0].sweep.repeat == min(expected, 12)


def test_the_job_of_workers_asks_for_what_each_needs_and_holds_no_secret(make_study, monkeypatch):
    monkeypatch.setenv("TARMAC_DATA", "data")
    study = make_study()
    workers = Workers(on="slurm", count=2, cpus=4, gpus=1, memory=2**30, time_s=7200)
    job = workers_job(study.path, workers, most_workers_of(study), has_secret_storage=True)
    assert job.resources.model_dump(exclude_unset=True) == {
        "cpus": 4,
        "gpus": 1,
        "memory": 2**30,
    }
    assert job.options == {"slurm": {"time": 7200, "requeue_on_timeout": True}}
    assert job.tasks[0].command[-4:] == ("--of", "2", "--time", "7200s")
    assert job.env == {"TARMAC_DATA": str(Path("data").resolve())}
    assert str(job.secrets["TARMAC_STUDY_STORAGE"]) == "(secret: variable TARMAC_STUDY_STORAGE)"


def test_a_worker_keeps_some_of_its_time_for_its_end():
    assert time_left(None, {})() == math.inf
    assert 3000 < time_left(3600, {})() <= 3480
    assert 25 < time_left(60, {})() <= 30
    soon = {"SLURM_JOB_END_TIME": str(int(time.time()) + 600)}
    assert 400 < time_left(3600, soon)() <= 480


# Trains three epochs, two steps each on all samples, and where there is a gate waits for its end.
GATED = """
    import threading
    from pathlib import Path
    import torch
    from torch import nn
    from tarmac.workloads import SGD, Recipe, Scale, Workload

    GATE = Path(__file__).with_name("gate")

    class Net(nn.Sequential):
        def __init__(self, hidden):
            super().__init__(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

        def forward(self, inputs):
            if self.training and self.steps == 6 and GATE.exists():
                threading.Event().wait()
            self.steps += self.training
            return super().forward(inputs)

    gated = Workload(
        name="gated", summary="", dataset="digits", model=lambda hidden=8: Net(hidden),
        recipe=Recipe(
            optimizer=SGD(learning_rate=0.05, momentum=0.9, nesterov=False),
            batch_size=200, epochs=6, preprocess=Scale(factor=1 / 16),
        ),
    )
    """


def test_the_winners_training_goes_on_where_its_worker_was_ended(tmp_path):
    (tmp_path / "gated.py").write_text(textwrap.dedent(GATED))
    sizes = {"train_size": 200, "validation_size": 100}
    study = tarmac.search(
        f"{tmp_path}/gated.py:gated",
        space={"hidden": [4, 8]},
        method="brute",
        workers=1,
        output=tmp_path / "runs",
        **sizes,
    )
    expected = study.best

    def has_checkpoint():
        return any((study.path / "best").glob("*/checkpoints/epoch-*.safetensors"))

    def conclude_again(halted=lambda: False):
        """Conclude the study anew; return the epochs that its winner was trained for."""
        epochs = []

        class Watching(Silent):
            def retraining(self, study, epoch, row):
                epochs.append(epoch)

        writer = StudyWriter.open(study.path)
        writer.update(status="running", best=None, ended_at=None)
        process = WinnersProcess(writer, Slot("cpu", 1))
        with contextlib.closing(process):
            is_done = conclude(writer, "so", process, Watching(), halted)
        assert is_done == (halted is not has_checkpoint)
        return [epoch for epoch in epochs if epoch]

    shutil.rmtree(study.path / "best")
    (tmp_path / "gate").touch()
    assert conclude_again(has_checkpoint) in ([], [1], [1, 2], [1, 2, 3])
    (tmp_path / "gate").unlink()
    assert conclude_again() in ([2, 3, 4, 5, 6], [3, 4, 5, 6], [4, 5, 6])
    found = Study.open(study.path).best
    assert (found.test_accuracy, found.test_loss) == (expected.test_accuracy, expected.test_loss)
    # What was trained of another network is none of it.
    (study.path / "best" / "network.json").write_text("{}")
    assert conclude_again() == [1, 2, 3, 4, 5, 6]


def test_a_network_that_was_cut_short_goes_on_from_its_checkpoint(tmp_path):
    def make(directory):
        training = Training(
            workload=FRAGILE,
            train_size=200,
            validation_size=100,
            runs=directory / "runs",
            logs=directory / "logs",
            keeps_checkpoints=True,
        )
        return ProcessEvaluator(training, [Slot("cpu", 1)], lambda: False)

    candidate = Candidate(number=0, settings={"hidden": 8}, seed=0, epochs=6)
    epochs = []

    def report(progress):
        epochs.append(progress.epoch)
        return False

    whole = make(tmp_path / "whole")
    (expected,) = whole.evaluate([candidate], report)
    whole.close()

    def cut(progress):
        if progress.epoch == 4:
            raise InterruptedError
        return report(progress)

    first = make(tmp_path / "cut")
    with pytest.raises(InterruptedError):
        list(first.evaluate([candidate], cut))
    first.close()
    epochs.clear()
    second = make(tmp_path / "cut")
    (result,) = second.evaluate([candidate], report)
    second.close()
    assert epochs[0] > 1
    assert epochs[-1] == 6
    for name in ("epochs", "loss", "val_loss", "val_accuracy", "num_parameters"):
        assert result.metrics[name] == expected.metrics[name]
    (record,) = (tmp_path / "cut" / "runs" / "00000").glob("*/run.json")
    run = Run.open(record.parent)
    assert [row["epoch"] for row in run.history] == [1, 2, 3, 4, 5, 6]
    assert [*run.checkpoints.iterdir()] == []
