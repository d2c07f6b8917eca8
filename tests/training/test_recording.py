"""What is recorded on a GPU, and that nothing else about a training changes by it."""

from __future__ import annotations

import dataclasses
import gc

import pytest
import torch

import tarmac
from tarmac.testing.strategies import WORKLOADS, assert_close, weights_of
from tarmac.training import FlatOptimizer, Group, Options, make_plan
from tarmac.training.engine import evaluation
from tarmac.training.engine.engine import Engine
from tarmac.training.engine.recorder import GraphRecorder
from tarmac.training.engine.team import Alone
from tarmac.workloads import SGD, find_workload

pytestmark = pytest.mark.gpu

# Of PyTorch's kernels: the fused ones draw dropout otherwise.
DIGITS = {"epochs": 2, "train_size": 700, "seed": 3, "device": "cuda", "fused": "off"}


@pytest.fixture
def recorded(monkeypatch):
    """Return what is recorded from now on, and whether that could be done."""
    made = []
    real = GraphRecorder.record

    def record(self, key, body):
        real(self, key, body)
        made.append(self.can_record)

    monkeypatch.setattr(GraphRecorder, "record", record)
    return made


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"precision": "fp32"}])
def test_recorded_steps_leave_the_bits_of_eager_ones(tmp_path, monkeypatch, options):
    asked = DIGITS | options | {"deterministic": True, "output": tmp_path}
    many = weights_of(tarmac.train("digits-mlp", **asked))
    single = weights_of(tarmac.train("digits-mlp", feed="direct", **asked))
    monkeypatch.setattr(GraphRecorder, "record", lambda *_: None)
    eager = weights_of(tarmac.train("digits-mlp", **asked))
    for others in (single, eager):
        assert all(torch.equal(many[name], value) for name, value in others.items())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accumulate": 3},
        {"feed": "prefetch", "accumulate": 2},
        {"precision": "fp64"},
        {"strategy": "towers"},
        {"validation_size": 100},
        {"compile": "on"},
    ],
)
def test_every_kind_of_step_is_recorded(tmp_path, recorded, options):
    tarmac.train("digits-mlp", output=tmp_path, **(DIGITS | options))
    assert recorded
    assert all(recorded)


@pytest.mark.parametrize("feed", ["resident", "prefetch", "direct"])
def test_a_step_that_reads_a_value_back_is_not_begun_to_be_recorded(tmp_path, monkeypatch, feed):
    class Reads(torch.nn.Linear):
        def forward(self, inputs):
            assert inputs.sum().item() >= 0
            return super().forward(inputs)

    begun = []
    real = torch.cuda.CUDAGraph.capture_begin

    def begin(self, *arguments, **options):
        begun.append(self)
        real(self, *arguments, **options)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", begin)
    mine = dataclasses.replace(
        WORKLOADS["mlp"],
        name="reads",
        model=lambda: torch.nn.Sequential(torch.nn.Flatten(), Reads(64, 4)),
    )
    tarmac.train(mine, device="cuda", feed=feed, score_test=False, output=tmp_path)
    assert not begun


def test_a_finished_training_leaves_the_gpus_memory_as_it_was(tmp_path):
    def allocated() -> int:
        torch._C._cuda_clearCublasWorkspaces()
        return torch.cuda.memory_allocated()

    tarmac.train("digits-mlp", output=tmp_path, **DIGITS)
    gc.collect()
    gc.disable()
    try:
        before = allocated()
        for options in ({}, {"feed": "prefetch"}, {"fused": "auto"}):
            tarmac.train("digits-mlp", output=tmp_path, **(DIGITS | options))
        assert allocated() == before
    finally:
        gc.enable()


def test_warming_up_leaves_all_state_as_it_was():
    asked = {key: value for key, value in DIGITS.items() if key != "device"}
    options = Options(devices="cuda", validation_size=100, **asked)
    mine = dataclasses.replace(WORKLOADS["norm"], recipe=find_workload("digits-mlp").recipe)
    small = Options(devices="cuda", train_size=90)
    for workload, chosen in ((find_workload("digits-mlp"), options), (mine, small)):
        engine = Engine(make_plan(workload, workload.name, chosen), Alone())
        before = engine.save(0, 0)
        kept = [{k: v.cpu() for k, v in part.items()} for part in (before.model, before.optimizer)]
        draws = {name: state.clone() for name, state in before.random.items()}
        assert engine.warm_up() > 0
        after = engine.save(0, 0)
        for found, expected in zip((after.model, after.optimizer), kept, strict=True):
            assert_close({k: v.cpu() for k, v in found.items()}, expected, 0.0, workload.name)
        assert all(torch.equal(after.random[name], state) for name, state in draws.items())
        assert after.totals.tolist() == [0, 0]


def test_held_out_samples_go_to_the_gpu_once(monkeypatch):
    sent = []
    real = evaluation.put_on
    monkeypatch.setattr(evaluation, "put_on", lambda *args: sent.append(args[2:]) or real(*args))
    # Fused trainings put them there in another way.
    options = Options(devices="cuda", validation_size=200, fused="off")
    plan = make_plan(find_workload("digits-mlp"), "digits-mlp", options)
    engine = Engine(plan, Alone())
    engine.warm_up()
    first, again = engine.evaluate_validation(), engine.evaluate_validation()
    assert first == again
    assert len(sent) == 1


def test_an_equal_rate_is_not_sent_to_the_gpu_again():
    values = torch.zeros(16, device="cuda")
    group = Group(0.0, values, torch.zeros_like(values))
    spec = SGD(learning_rate=0.1, momentum=0.0, nesterov=False)
    optimizer = FlatOptimizer(spec, [group])
    rate = optimizer._rate
    assert isinstance(rate, torch.Tensor)
    before = rate._version
    optimizer.set_learning_rate(0.1)
    assert rate._version == before
    optimizer.set_learning_rate(0.2)
    assert rate._version > before


def test_the_host_sleeps_while_it_waits_for_the_gpu(tmp_path, monkeypatch):
    made = []
    real = torch.cuda.Event

    class Event(real):
        def __new__(cls, *args, **kwargs):
            made.append(kwargs.get("blocking", False))
            return super().__new__(cls, *args, **kwargs)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    tarmac.train("digits-mlp", output=tmp_path, feed="prefetch", **DIGITS)
    assert made
    assert all(made)
