"""Real networks in real processes: what ends one of them, and what ends the search."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

import tarmac
from damaged_records import make_training
from forked import start_python
from tarmac.machine import find_devices
from tarmac.studies import Candidate, Silent, Study
from tarmac.studies.evaluation.in_processes import ProcessEvaluator, Training
from tarmac.studies.evaluation.slots import Slot, slots_of
from tarmac.studies.evaluation.worker import _gone_on_with
from tarmac.studies.opening import open_study
from tarmac.studies.verb import work_on

FRAGILE = f"{Path(__file__).with_name('fragile.py')}:fragile"


def evaluator(tmp_path, count=1, halted=lambda: False, train_size=200):
    training = Training(
        workload=FRAGILE,
        train_size=train_size,
        validation_size=100,
        runs=tmp_path / "runs",
        logs=tmp_path / "logs",
    )
    return ProcessEvaluator(training, [Slot("cpu", 1)] * count, halted)


def candidate(number, *, epochs=2, patience=None, **settings):
    return Candidate(number=number, settings=settings, seed=0, epochs=epochs, patience=patience)


def test_one_bad_network_harms_no_other(tmp_path):
    faults = ["none", "crash", "complain", "memory", "nan", "none"]
    trains = evaluator(tmp_path, count=2)
    found = {
        result.number: result
        for result in trains.evaluate(
            [candidate(number, fault=fault) for number, fault in enumerate(faults)],
            lambda progress: False,
        )
    }
    trains.close()
    assert sorted(found) == [0, 1, 2, 3, 4, 5]
    for number in (0, 5):
        assert found[number].error is None
        assert found[number].metrics["epochs"] == 2
        assert found[number].metrics["num_parameters"] == 64 * 8 + 8 + 80 + 10
        assert 0 < found[number].metrics["val_accuracy"] < 1
    assert "was ended by SIGSEGV" in found[1].error
    assert found[2].error == "ValueError: the pigeons are asleep"
    assert "out of memory" in found[3].error
    assert "diverged" in found[4].error or "nan" in found[4].error


@pytest.mark.parametrize("fault", ["terminate", "die"])
def test_a_network_that_was_asked_to_end_by_a_scheduler_is_not_to_blame(tmp_path, fault):
    trains = evaluator(tmp_path)
    (result,) = trains.evaluate([candidate(0, fault=fault)], lambda progress: False)
    trains.close()
    assert (result.stopped, result.error, dict(result.metrics)) == (True, None, {})


def test_a_network_stops_when_told_or_when_it_gets_no_better(tmp_path):
    trains = evaluator(tmp_path)
    seen = []

    def report(progress):
        seen.append((progress.number, progress.epoch))
        return progress.number == 0 and progress.epoch == 2

    stopped, patient, whole = trains.evaluate(
        [
            candidate(0, epochs=5),
            candidate(1, epochs=50, patience=1, learning_rate=2.0),
            candidate(2, epochs=3),
        ],
        report,
    )
    trains.close()
    assert (stopped.stopped, stopped.metrics["epochs"]) == (True, 2)
    assert not patient.stopped
    assert patient.metrics["epochs"] < 50
    assert (whole.stopped, whole.metrics["epochs"]) == (False, 3)
    assert seen[-3:] == [(2, 1), (2, 2), (2, 3)]


def test_a_network_of_a_search_never_sees_the_test_set(tmp_path):
    trains = evaluator(tmp_path)
    (result,) = trains.evaluate([candidate(0)], lambda progress: False)
    trains.close()
    assert not any(name.startswith("test") for name in result.metrics)
    (path,) = (tmp_path / "runs" / "00000").iterdir()
    record = json.loads((path / "run.json").read_text())
    assert (record["status"], record["error"]) == ("completed", None)
    assert not any(name.startswith("test") for name in record["metrics"])
    assert record["metrics"]["val_loss"] == result.metrics["val_loss"]
    # Of a candidate its numbers are kept, without weights.
    assert [*path.rglob("*.safetensors")] == []


def test_the_run_of_every_candidate_says_how_it_ended(tmp_path):
    trains = evaluator(tmp_path)
    given = [
        candidate(0),
        candidate(1, epochs=5),
        candidate(2, epochs=50, patience=1, learning_rate=2.0),
        candidate(3, fault="complain"),
    ]
    results = [*trains.evaluate(given, lambda progress: progress.number == 1)]
    trains.close()
    assert [result.stopped for result in results] == [False, True, False, False]
    ends = []
    for number in range(4):
        (path,) = (tmp_path / "runs" / f"{number:05d}").iterdir()
        record = json.loads((path / "run.json").read_text())
        ends.append((record["status"], record["stopped_early"]))
    assert ends == [
        ("completed", None),
        ("completed", "stopped early by the search"),
        ("completed", "val_loss has not fallen for 1 epoch"),
        ("failed", None),
    ]


def test_the_same_candidate_is_the_same_network_alone_and_in_company(tmp_path):
    alone, both = evaluator(tmp_path / "a"), evaluator(tmp_path / "b", count=2)
    (one,) = alone.evaluate([candidate(0, hidden=16)], lambda progress: False)
    others = [candidate(number, hidden=16 if number == 2 else 8) for number in range(3)]
    again = {result.number: result for result in both.evaluate(others, lambda progress: False)}[2]
    alone.close()
    both.close()
    assert one.metrics["val_loss"] == again.metrics["val_loss"]


def test_closing_the_iterator_ends_what_is_being_trained(tmp_path, monkeypatch):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    monkeypatch.setenv("GATE", str(gate))
    trains = evaluator(tmp_path, count=2)
    results = trains.evaluate(
        [candidate(0, hidden=13), candidate(1, hidden=8)], lambda progress: False
    )
    assert next(results).number == 1
    assert gate.read_text() == "here"
    results.close()
    assert list(trains._workers) == [1]
    trains.close()


@pytest.mark.parametrize(
    ("devices", "workers", "expected"),
    [
        ("cpu:2", None, ["cpu", "cpu"]),
        ("cpu", 3, ["cpu", "cpu", "cpu"]),
        ("cpu", 1, ["cpu"]),
    ],
)
def test_devices_are_shared_out_among_processes(devices, workers, expected):
    slots = slots_of(find_devices(devices), workers)
    assert [slot.device for slot in slots] == expected
    assert all(slot.num_threads >= 1 for slot in slots)


def start(tmp_path, *arguments, **environment):
    return start_python(
        *("-m", "tarmac", "search", FRAGILE, *arguments),
        cwd=tmp_path,
        env={**os.environ, "TARMAC_RUNS": str(tmp_path / "runs"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


SEARCH = ["--set", "hidden=8,13", "--set", "learning_rate=0.1,0.05", "--method", "brute"]


def results(study):
    return [(row["number"], row["params"], row.get("val_accuracy")) for row in study.trials]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The search that nothing ended."""
    return tarmac.search(
        FRAGILE,
        space={"hidden": [8, 13], "learning_rate": [0.1, 0.05]},
        method="brute",
        workers=1,
        output=tmp_path_factory.mktemp("whole"),
    )


@pytest.mark.parametrize("how", ["interrupt", "kill", "kill the worker"])
def test_whatever_ends_a_search_it_goes_on_as_if_nothing_had_happened(tmp_path, whole, how):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = start(tmp_path, *SEARCH, "--workers", "1", GATE=str(gate))
    with gate.open() as opened:
        assert opened.read(4) == "here"
        (path,) = (tmp_path / "runs").iterdir()
        study = Study.open(path)
        assert study.status == "running"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        worker = int(children.split()[0])
        ended = os.pidfd_open(worker)
        if how == "interrupt":
            process.send_signal(signal.SIGINT)
        elif how == "kill":
            process.kill()
        else:
            os.kill(worker, signal.SIGKILL)
        # A search leaves no process behind, however it ends.
        select.select([ended], [], [])
        os.close(ended)
        if how == "kill the worker":
            # The killed network fails; the next that waits is the other one of 13.
            opened.read()
    if how == "kill the worker":
        with gate.open() as opened:
            assert opened.read(4) == "here"
            process.kill()
    _, errors = process.communicate()
    if how == "interrupt":
        assert process.returncode == 130
        assert f"Resume it: tarmac search --resume {path}" in errors
        assert Study.open(path).record.status == "interrupted"
    study = tarmac.search(resume=path, workers=1)
    assert study.status == "completed"
    assert study.best.test_accuracy > 0.5
    if how == "kill the worker":
        failed = [row for row in study.trials if row["state"] == "failed"]
        assert len(failed) == 1
        assert "was ended by SIGKILL" in failed[0]["error"]
        kept = {row["number"] for row in study.trials} - {failed[0]["number"]}
        assert [row for row in results(study) if row[0] in kept] == [
            row for row in results(whole) if row[0] in kept
        ]
    else:
        assert results(study) == results(whole)
    assert (study.path / study.best.run / "model.safetensors").exists()


def test_the_winner_is_trained_anew_on_everything_as_the_line_says(tmp_path):
    from tarmac.studies.winner import train_line

    study = tarmac.search(
        "digits-mlp",
        space={"hidden": [8, 16], "dropout": 0.0},
        method="brute",
        monitor="val_loss",
        epochs=2,
        output=tmp_path,
        devices="cpu",
    )
    run = json.loads((study.path / study.best.run / "run.json").read_text())
    assert run["judged_by"]["metric"] == study.record.judged_by.metric == "loss"
    assert run["configuration"]["train_size"] == 1438
    assert run["configuration"]["validation_size"] == 0
    assert run["metrics"]["test_accuracy"] == study.best.test_accuracy
    words = train_line(study, study.best).split()
    assert words[:3] == ["tarmac", "train", "digits-mlp"]
    assert "--epochs 2 --seed 0 --monitor loss:min" in " ".join(words)
    assert f"hidden={study.best.settings['hidden']}" in words
    assert repr(study).startswith(f"<Study {study.path} completed")


THREADS = """
import torch
from pathlib import Path
from torch import nn
from tarmac.workloads import Adam, Recipe, Workload

class Net(nn.Linear):
    def forward(self, inputs):
        if self.training:
            Path(__file__).with_suffix(".threads").write_text(str(torch.get_num_threads()))
        return super().forward(inputs.flatten(1))

own = Workload(
    name="own", summary="x", dataset="digits", model=lambda bias=True: Net(64, 10, bias),
    recipe=Recipe(
        optimizer=Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8),
        batch_size=64, epochs=1,
    ),
)
"""


def test_the_winner_is_trained_on_all_threads_of_its_device(tmp_path):
    (device,) = find_devices("cpu")
    (tmp_path / "own.py").write_text(THREADS)
    tarmac.search(
        f"{tmp_path}/own.py:own",
        space={"bias": ["true", "false"]},
        method="brute",
        workers=device.num_threads,
        output=tmp_path,
    )
    # The winner is the last one that is trained.
    assert (tmp_path / "own.threads").read_text() == str(device.num_threads)


@pytest.mark.parametrize("how", ["is interrupted", "fails"])
def test_a_study_that_another_process_completed_stays_completed(tmp_path, how):
    class Another(Silent):
        """Completes the study in the middle of this one's work on it."""

        is_done = False

        def began(self, study, where):
            tarmac.search(resume=study.path)
            self.is_done = True
            if how == "fails":
                raise OSError("the disk is on fire")

    fields = {"space": {"hidden": [8, 16]}, "method": "brute", "epochs": 1}
    study = open_study("digits-mlp", output=tmp_path, **fields)
    another = Another()
    context = (
        pytest.raises(OSError, match="on fire") if how == "fails" else contextlib.nullcontext()
    )
    with context:
        work_on(study, another, stop=lambda: another.is_done)
    assert study.status == "completed"
    record = Study.open(study.path).record
    assert (record.status, record.error) == ("completed", None)
    assert record.best.test_accuracy is not None


class Quiet(Silent):
    """Counts."""

    def __init__(self):
        self.seen = []

    def trial_done(self, study, trial):
        self.seen.append(trial.number)


def test_a_finished_study_is_not_searched_again_unless_it_may_go_further(tmp_path):
    fields = {"space": {"hidden": [8, 16, 24, 32]}, "epochs": 1, "population": 3}
    study = tarmac.search("digits-mlp", generations=1, output=tmp_path, **fields)
    before = study.best
    reporter = Quiet()
    again = tarmac.search(resume=study.path, reporter=reporter)
    assert (again.best, reporter.seen) == (before, [])
    further = tarmac.search(resume=study.path, reporter=reporter, generations=2)
    assert reporter.seen == [3]
    assert further.record.why_ended == "2 generations are done"


def test_a_run_that_a_killed_process_was_making_is_not_gone_on_with(tmp_path):
    make_training(tmp_path, "part").rename(tmp_path / ".part")
    job = {"output": str(tmp_path), "checkpoint_every": 1}
    assert _gone_on_with(job, None) is None
