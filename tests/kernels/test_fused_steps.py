"""The fused kernels leave what single steps of the unfused path leave, in the replica itself."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from fused_cases import OPTIMIZERS
from torch import nn

from tarmac import TarmacError
from tarmac.data import hold_out
from tarmac.training import FlatOptimizer, Options, Plan, Replica, build_model, make_plan
from tarmac.training.engine.fused import FusedSteps
from tarmac.training.engine.step_runner import Steps
from tarmac.workloads import OneCycle, Optimizer, Recipe, Scale, Workload

_BATCH = 16
_RATES = (1.0, 0.5)


def _model(hidden: int = 9) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.Tanh(), nn.Linear(hidden, 10))


def _plan(optimizer: Optimizer) -> Plan:
    recipe = Recipe(
        optimizer=optimizer,
        batch_size=_BATCH,
        epochs=2,
        schedule=OneCycle(warmup=0.5, start=0.1, end=0.1),
        preprocess=Scale(factor=1 / 16, mean=0.3, std=0.5),
        weight_decay={"3.*": 1e-2},
        label_smoothing=0.1,
    )
    workload = Workload(
        name="small", summary="one hidden layer", dataset="digits", model=_model, recipe=recipe
    )
    options = Options(devices="cpu", precision="fp32", train_size=2 * _BATCH + 5)
    return make_plan(workload, "small", options)


def _replica(plan: Plan) -> tuple[Replica, FlatOptimizer]:
    model = build_model(plan.workload, plan.model_arguments, plan.seed)
    replica = Replica(plan, model, torch.device("cpu"), 0)
    return replica, FlatOptimizer(plan.workload.recipe.optimizer, replica.parameters.groups)


def _state(replica: Replica, optimizer: FlatOptimizer) -> dict[str, torch.Tensor]:
    """All that a step changes."""
    found = replica.parameters.state_dict() | optimizer.state() | {"totals": replica.totals}
    return {name: value.clone() for name, value in found.items()}


def _chunks(plan: Plan) -> list[tuple[Steps, torch.Tensor]]:
    """Two full steps, and one of the five samples that are left, in the second epoch."""
    rate, index = plan.workload.recipe.optimizer.learning_rate, torch.arange(plan.train_size)
    full = Steps(3, 1 / _BATCH, tuple(rate * r for r in _RATES), ((_BATCH,),))
    last = Steps(5, 1 / 5, (rate / 4,), ((5,),))
    return [(full, index[: 2 * _BATCH]), (last, index[2 * _BATCH :])]


def _fused(optimizer: Optimizer) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The state after three steps, and after the same from the first state put back."""
    plan = _plan(optimizer)
    replica, flat = _replica(plan)
    _count(flat, 3)
    first = _state(replica, flat)
    steps = FusedSteps(plan, replica, flat)
    outcomes = []
    for _ in range(2):
        for chunk, index in _chunks(plan):
            steps.run(chunk, [iter([(index,)])])
        outcomes.append(_state(replica, flat))
        replica.parameters.load_state_dict({n: v for n, v in first.items() if n in _names(replica)})
        flat.load_state(first)
        replica.totals.zero_()
        steps.reload()
    return outcomes[0], outcomes[1]


def _unfused(optimizer: Optimizer) -> dict[str, torch.Tensor]:
    plan = _plan(optimizer)
    replica, flat = _replica(plan)
    _count(flat, 3)
    for chunk, index in _chunks(plan):
        for rate, batch in zip(chunk.rates, torch.split(index, chunk.sizes[0][0]), strict=True):
            replica.compute(chunk.scale, batch)
            flat.set_learning_rate(rate)
            flat.step()
            replica.parameters.publish()
    return _state(replica, flat)


def _names(replica: Replica) -> set[str]:
    return {*replica.parameters.state_dict()}


def _count(flat: FlatOptimizer, steps: int) -> None:
    """Set what an optimizer counts to what so many steps leave, its averages aside."""
    for name, value in flat.state().items():
        if name.endswith(".step") and value.item() < steps:
            value.fill_(steps)
        elif name.endswith(".mu_product"):
            mu = [0.9 * (1 - 0.5 * 0.96 ** (t * 0.004)) for t in range(1, steps + 1)]
            value.fill_(torch.tensor(mu, dtype=torch.float64).prod())


def _resumed(optimizer: Optimizer) -> dict[str, torch.Tensor]:
    """The state after the last step, in a replica that began with what the others left."""
    plan = _plan(optimizer)
    (full, index), last = _chunks(plan)
    replica, flat = _replica(plan)
    _count(flat, 3)
    FusedSteps(plan, replica, flat).run(full, [iter([(index,)])])
    left = _state(replica, flat)
    replica, flat = _replica(plan)
    steps = FusedSteps(plan, replica, flat)
    replica.parameters.load_state_dict({n: v for n, v in left.items() if n in _names(replica)})
    flat.load_state(left)
    replica.totals.copy_(left["totals"])
    steps.reload()
    steps.run(last[0], [iter([(last[1],)])])
    return _state(replica, flat)


@pytest.mark.parametrize(
    "optimizer", [OPTIMIZERS[4], OPTIMIZERS[6]], ids=lambda o: type(o).__name__
)
def test_a_training_goes_on_exactly_in_another_replica(interpreted, optimizer):
    whole, _ = interpreted(_fused, optimizer)
    for name, value in interpreted(_resumed, optimizer).items():
        assert torch.equal(value, whole[name]), name


@pytest.mark.parametrize("optimizer", OPTIMIZERS[:7], ids=lambda o: type(o).__name__)
def test_fused_steps_leave_what_single_steps_leave(interpreted, optimizer):
    found, again = interpreted(_fused, optimizer)
    wanted = _unfused(optimizer)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6, msg=name)
        assert torch.equal(again[name], found[name]), name


def test_a_call_computes_an_epoch_or_an_equal_part_of_it(interpreted):
    assert interpreted(_steps_at_once, 37) == 2
    assert interpreted(_steps_at_once, 1437) == 89


def _steps_at_once(train_size: int) -> int:
    plan = _plan(OPTIMIZERS[0])
    held = hold_out(plan.dataset, train_size=train_size)
    plan = dataclasses.replace(plan, held=held)
    return FusedSteps(plan, *_replica(plan)).at_once


def test_kernels_that_cannot_be_compiled_end_the_training_with_what_to_do():
    plan = _plan(OPTIMIZERS[0])
    steps = FusedSteps(plan, *_replica(plan))
    with pytest.raises(TarmacError, match="the fused kernels cannot be compiled here") as caught:
        # Neither a GPU nor the interpreter is here.
        steps.warm_up([chunk for chunk, _ in _chunks(plan)])
    assert "--fused off" in caught.value.hint
