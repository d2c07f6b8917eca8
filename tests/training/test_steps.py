"""Many steps in one call: cut as planned, recorded once, and the bits of single steps."""

from __future__ import annotations

import dataclasses
import os
import signal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tarmac
from tarmac.testing.strategies import WORKLOADS, weights_of
from tarmac.training import AllReduce, Options, Silent, StrategySpec, make_plan
from tarmac.training.engine import strategies
from tarmac.training.engine.chunks import (
    Chunk,
    cut_into_chunks,
    kinds_of_chunks,
    most_at_once,
    order_of_replica,
)
from tarmac.training.engine.engine import Engine
from tarmac.training.engine.many_steps import ManySteps
from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.team import Alone
from tarmac.training.shares import Shares

# 21 full batches of 32 samples and a smaller one: many, single ones, the last.
DIGITS = {"epochs": 2, "train_size": 700, "seed": 3, "precision": "fp32", "devices": "cpu"}


class Replaying:
    """Does what is recorded as a GPU does: later, from the tensors that it was recorded with."""

    def __init__(self, *, can_record: bool = True) -> None:
        self.can_record = can_record
        self.bodies = {}
        self.replayed = []

    def warm_up(self, body):
        body()

    def record(self, key, body):
        self.bodies[key] = body

    def replay(self, key):
        if key in self.bodies:
            self.replayed.append(key)
            self.bodies[key]()
        return key in self.bodies

    def forget(self):
        self.bodies.clear()
        self.can_record = False


class FirstOfTwo(Alone):
    """One of two ranks, the other of which adds zeros."""

    world_size = 2

    def all_gather(self, value):
        return [value, value]


@pytest.fixture
def recorders(monkeypatch):
    """Let ``single`` and ``ddp`` compute many steps at once; return what records them."""
    made = []

    class ManyAtOnce(AllReduce):
        def __init__(self, plan, model, team):
            super().__init__(plan, model, team)
            made.append(Replaying())
            self.many = ManySteps(plan, self.replicas[0], self.optimizer, team, made[-1])

    for name in ("single", "ddp"):
        spec = StrategySpec(name=name, build=ManyAtOnce, runner=lambda strategy: strategy.many)
        monkeypatch.setitem(strategies._OWN, name, spec)
    return made


@given(
    num_samples=st.integers(1, 400),
    batch_size=st.integers(1, 60),
    num_replicas=st.integers(1, 3),
    accumulate=st.integers(1, 3),
    data=st.data(),
)
def test_chunks_are_all_steps_in_order_each_of_a_known_kind(
    num_samples, batch_size, num_replicas, accumulate, data
):
    shares = Shares(
        num_samples=num_samples,
        batch_size=batch_size,
        num_replicas=num_replicas,
        accumulate=accumulate,
    )
    at_once = most_at_once(shares, data.draw(st.integers(1, 20)))
    first_step = data.draw(st.integers(0, shares.num_steps))
    chunks = cut_into_chunks(shares, first_step, at_once)
    steps = [step for chunk in chunks for step in range(chunk.first, chunk.stop)]
    assert steps == list(range(first_step, shares.num_steps))

    def kind(chunk: Chunk) -> tuple[int, int]:
        sizes = {shares.global_size(step) for step in range(chunk.first, chunk.stop)}
        (size,) = sizes
        return chunk.count, size

    kinds = [kind(chunk) for chunk in kinds_of_chunks(shares, at_once)]
    assert len(set(kinds)) == len(kinds) <= 3
    assert {kind(chunk) for chunk in chunks} <= set(kinds)
    order = torch.randperm(num_samples)
    for replica in range(num_replicas):
        own, spans = order_of_replica(order, shares, chunks, replica)
        assert [start for start, _ in spans] == [0, *(stop for _, stop in spans)][: len(spans)]
        slices = [order[slice(*shares.slice_of(step, replica))] for step in steps]
        assert own.tolist() == [index for part in slices for index in part.tolist()]
        assert len(own) == (spans[-1][1] if spans else 0)


@pytest.mark.parametrize(
    "options", [{}, {"accumulate": 3}, {"validation_size": 100}, {"precision": "bf16"}]
)
def test_recorded_steps_leave_the_bits_of_single_ones(tmp_path, recorders, options, monkeypatch):
    workload = dataclasses.replace(
        tarmac.workloads.find_workload("digits-mlp"),
        name="mine",
    )
    constant = dataclasses.replace(workload.recipe, schedule=tarmac.workloads.Constant())
    workload = dataclasses.replace(workload, recipe=constant)
    many = tarmac.train(workload, output=tmp_path, **(DIGITS | options))
    (recorder,) = recorders
    assert len(recorder.bodies) == 3
    assert [count for count, *_ in recorder.replayed] == [16, 1, 1, 1, 1, 1, 1] * 2
    monkeypatch.undo()
    single = tarmac.train(workload, output=tmp_path, **(DIGITS | options))
    assert [row["loss"] for row in many.history] == [row["loss"] for row in single.history]
    ours, theirs = weights_of(many), weights_of(single)
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())


def test_steps_that_cannot_be_recorded_leave_the_same_bits(tmp_path, recorders, monkeypatch):
    monkeypatch.setattr(Replaying, "record", lambda self, _key, _body: self.forget())
    many = tarmac.train("digits-mlp", output=tmp_path, **DIGITS)
    assert recorders[0].replayed == []
    monkeypatch.undo()
    ours = weights_of(many)
    theirs = weights_of(tarmac.train("digits-mlp", output=tmp_path, **DIGITS))
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())


@pytest.mark.usefixtures("recorders")
def test_a_run_stopped_among_many_steps_resumes_to_the_same_bits(tmp_path):
    class Stop(Silent):
        def stepped(self, epoch, step, score):
            if (epoch, step) == (2, 5):
                os.kill(os.getpid(), signal.SIGTERM)

    norms = WORKLOADS["norm"]
    wide = dataclasses.replace(norms, recipe=dataclasses.replace(norms.recipe, batch_size=3))
    options = {"output": tmp_path, "epochs": 3, "train_size": 95, "devices": "cpu"}
    whole = weights_of(tarmac.train(wide, **options))
    stopped = tarmac.train(wide, reporter=Stop(), **options)
    assert stopped.status == "interrupted"
    (newest,) = [p.name for p in stopped.checkpoints.iterdir() if "00001-step-0000016" in p.name]
    assert newest
    resumed = weights_of(tarmac.resume(stopped.path, workload=wide))
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


@pytest.mark.parametrize(
    ("model", "asked", "singles"),
    [
        ("norm", {"train_size": 76}, 3),
        ("mlp", {"train_size": 78, "accumulate": 2}, 4),
    ],
)
def test_ranks_add_the_same_up_for_many_steps_as_for_single_ones(
    recorders, monkeypatch, model, asked, singles
):
    small = dataclasses.replace(WORKLOADS[model].recipe, batch_size=4)
    mine = dataclasses.replace(WORKLOADS[model], recipe=small)
    options = Options(devices="cpu:2", strategy="ddp", **asked)

    def train() -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        engine = Engine(make_plan(mine, "mine", options), FirstOfTwo())
        for epoch in range(2):
            done = engine.train_epoch(epoch, 0, lambda _: False)
        assert not done.stop
        return {name: value.clone() for name, value in engine.weights().items()}

    many = train()
    assert [count for count, *_ in recorders[0].replayed] == [16, *[1] * singles] * 2
    monkeypatch.undo()
    assert all(torch.equal(many[name], value) for name, value in train().items())


@pytest.mark.usefixtures("recorders")
def test_a_stop_is_looked_at_after_each_call_and_every_step_is_told_of():
    plan = make_plan(tarmac.workloads.find_workload("digits-mlp"), "digits-mlp", Options(**DIGITS))
    engine = Engine(plan, Alone())
    assert engine.warm_up() > 0
    assert engine.warm_up() == 0
    told = []

    def after_step(step: int) -> bool:
        told.append(step)
        return step == 3

    assert engine.train_epoch(0, 0, after_step).num_steps == 16
    assert told == list(range(1, 17))


def test_gradients_of_each_type_are_copied_by_one_call(monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    parameters = Parameters(model, weight_decay={}, bf16=True)
    called = []
    real = torch._foreach_copy_

    def spy(targets, sources):
        called.append({source.dtype for source in sources})
        real(targets, sources)

    monkeypatch.setattr(torch, "_foreach_copy_", spy)
    parameters.take_gradients([torch.ones_like(leaf) for leaf in parameters.leaves])
    assert called == [{torch.bfloat16}, {torch.float32}]
    assert torch.equal(parameters.groups[0].gradients, torch.ones(parameters.num_parameters))
