"""How a study's networks are trained: as stacks where they can be, else in processes."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

import tarmac
from tarmac.machine import find_devices
from tarmac.studies import Silent, find_study
from tarmac.studies.evaluation.choice import choose_evaluator
from tarmac.studies.evaluation.stacked.pool import PooledEvaluator
from tarmac.studies.request import make_request
from tarmac.studies.space import Choices, Space
from tarmac.studies.study.writer import StudyWriter
from waiting import limit_s

DIGITS = {"space": {"dataset": "digits", "neurons": [16, 32], "layers": [1, 2]}, "epochs": 2}


class Hears(Silent):
    def __init__(self) -> None:
        self.summary = ""

    def began(self, study, summary) -> None:
        self.summary = summary


def search(tmp_path, what="mlp", **fields):
    reporter = Hears()
    study = tarmac.search(what, output=tmp_path, reporter=reporter, **{**DIGITS, **fields})
    return study, reporter.summary


def test_perceptrons_train_as_stacks(tmp_path):
    study, summary = search(tmp_path, method="brute")
    assert summary.startswith("networks of equal shape as one, on cpu")
    assert {trial["state"] for trial in study.trials} == {"complete"}
    assert len(study.trials) == 4
    assert study.best.test_accuracy > 0.2


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"workers": 1}, "a number of workers was requested"),
        ({"devices": "cpu:2"}, "several devices were requested"),
    ],
)
def test_processes_train_where_they_are_asked_for(tmp_path, fields, why):
    study, summary = search(tmp_path, trials=1, **fields)
    assert summary.startswith("one network per process")
    assert summary.endswith(why)
    assert [trial["state"] for trial in study.trials] == ["complete"]


def test_several_gpus_have_a_stack_each(tmp_path):
    (cpu,) = find_devices("cpu")
    gpus = tuple(
        dataclasses.replace(cpu, type="cuda", index=index, num_threads=0, available_bytes=2**40)
        for index in range(2)
    )
    study = StudyWriter.create(
        tmp_path,
        "study",
        make_request({"workload": "mlp", "epochs": 2}),
        Space({"neurons": Choices((8, 16))}),
        {"dataset": "digits"},
        train_size=100,
        validation_size=20,
    )
    chosen = choose_evaluator(study, gpus, lambda: False)
    assert isinstance(chosen.evaluator, PooledEvaluator)
    assert chosen.summary.startswith("networks of all shapes as one, on cuda:0, cuda:1")
    assert chosen.summary.endswith("in 2 processes")


def test_a_convolutional_network_has_a_process_and_the_reason_is_said(tmp_path):
    (tmp_path / "own.py").write_text(
        textwrap.dedent(
            """
            from torch import nn
            from tarmac.workloads import Adam, Recipe, Workload

            def model(channels: int = 4):
                return nn.Sequential(
                    nn.Unflatten(1, (1, 8)), nn.Conv2d(1, channels, 3), nn.Flatten(),
                    nn.Linear(channels * 36, 10),
                )

            own = Workload(
                name="own", summary="x", dataset="digits", model=model,
                recipe=Recipe(
                    optimizer=Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8),
                    batch_size=64, epochs=1,
                ),
            )
            """
        )
    )
    study, summary = search(
        tmp_path, f"{tmp_path}/own.py:own", space={"channels": [1, 2]}, method="brute", epochs=1
    )
    assert "one network per process" in summary
    assert "cannot be stacked" in summary
    assert len(study.trials) == 2


def test_a_search_in_stacks_that_was_killed_ends_as_if_it_had_not_been(tmp_path):
    line = [
        *(sys.executable, "-m", "tarmac", "search", "mlp", "--set", "dataset=digits"),
        *("--set", "neurons=16,32,64", "--set", "layers=1,2", "--set", "activation=relu,tanh"),
        *("--population", "4", "--generations", "2", "--epochs", "12", "--seed", "5"),
    ]
    whole = subprocess.run(
        [*line, "--output", tmp_path / "whole", "--json"], capture_output=True, check=False
    )
    assert whole.returncode == 0, whole.stderr.decode()
    killed = subprocess.Popen(
        [*line, "--output", tmp_path / "killed"], stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout is not None
    for printed in killed.stdout:
        if "complete" in printed:
            break
    workers = psutil.Process(killed.pid).children()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    _, left = psutil.wait_procs(workers, timeout=limit_s(60))
    assert left == []
    again = subprocess.run(
        [
            *(sys.executable, "-m", "tarmac", "search", "--resume", "latest", "--json"),
            *("--output", tmp_path / "killed"),
        ],
        capture_output=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr.decode()
    one, other = (find_study("latest", tmp_path / name) for name in ("whole", "killed"))
    assert _trials(one) == _trials(other)
    assert one.best.test_accuracy == other.best.test_accuracy


def _trials(study):
    keys = ("number", "state", "params", "val_accuracy")
    return [{key: trial.get(key) for key in keys} for trial in study.trials]
