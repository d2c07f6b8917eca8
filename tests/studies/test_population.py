"""Networks trained as one stack become what they become alone."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tarmac
from tarmac import RequestError, data
from tarmac.studies.evaluation.interface import Candidate
from tarmac.studies.evaluation.stacked import stack as _stack
from tarmac.studies.evaluation.stacked.arithmetic import Arithmetic, Workspace
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.studies.evaluation.stacked.grouping import Stack
from tarmac.studies.evaluation.stacked.layout import Layout
from tarmac.studies.evaluation.stacked.masks import Masks
from tarmac.studies.evaluation.stacked.network import can_stack
from tarmac.workloads import (
    Adam,
    CropAndFlip,
    Muon,
    OneCycle,
    Recipe,
    Scale,
    Workload,
    find_workload,
)

OPTIMIZERS = ("rmsprop", "adam", "sgd", "adagrad", "adadelta", "adamax", "nadam")
ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")
SETTINGS = {"dataset": "digits", "neurons": 16, "layers": 2}
# A stack is judged by samples of one draw, whatever seeds its networks have.
SPLIT = {"train_size": 300, "validation_size": 100, "validation_seed": 0}
TOLERANCE = {"fp32": {"rel": 1e-3, "abs": 1e-5}, "bf16": {"rel": 0.05, "abs": 0.01}}


def evaluator(**options) -> StackedEvaluator:
    workload = options.pop("workload", find_workload("mlp"))
    fields = {"settings": SETTINGS, "device": "cpu", "precision": "fp32", **SPLIT} | options
    return StackedEvaluator(workload, data.load("digits"), **fields)


def candidate(number=0, seed=None, epochs=3, patience=None, **settings) -> Candidate:
    return Candidate(
        number=number,
        settings=settings,
        seed=number if seed is None else seed,
        epochs=epochs,
        patience=patience,
    )


def histories(evaluator, candidates, stop=lambda progress: False):
    """Train candidates; return every epoch's metrics, and the results, by number."""
    rows = {each.number: [] for each in candidates}

    def report(progress):
        rows[progress.number].append(dict(progress.metrics))
        assert progress.epoch == len(rows[progress.number])
        return stop(progress)

    results = {result.number: result for result in evaluator.evaluate(candidates, report)}
    assert results.keys() == rows.keys()
    return rows, results


def assert_same(ours, theirs, precision):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        for name in ("loss", "val_loss"):
            assert mine[name] == pytest.approx(other[name], **TOLERANCE[precision]), name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_without_dropout_each_network_of_a_mixed_stack_is_as_if_trained_alone(tmp_path, precision):
    stacked = [
        candidate(
            number,
            optimizer=optimizer,
            activation=ACTIVATIONS[number % 4],
            dropout=0.0,
            learning_rate=0.01 * (1 + number) if optimizer != "adadelta" else 0.5,
        )
        for number, optimizer in enumerate(OPTIMIZERS)
    ]
    rows, results = histories(evaluator(precision=precision), stacked)
    for each in stacked:
        options = dict(each.settings)
        run = tarmac.train(
            "mlp",
            seed=each.seed,
            epochs=3,
            learning_rate=options.pop("learning_rate"),
            settings=SETTINGS | options,
            precision=precision,
            device="cpu",
            output=tmp_path,
            **SPLIT,
        )
        assert_same(rows[each.number], run.history, precision)
        assert results[each.number].num_companions == len(OPTIMIZERS) - 1
        assert results[each.number].metrics["epochs"] == 3


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_with_dropout_a_network_is_the_same_in_any_stack(precision, optimizer, activation):
    one = candidate(1, optimizer=optimizer, activation=activation, batch_size=100)
    others = [
        candidate(0, epochs=1, optimizer="adam", activation=activation, batch_size=100),
        candidate(2, epochs=2, optimizer=optimizer, activation="relu", batch_size=100, dropout=0.5),
        candidate(3, optimizer="sgd", activation="tanh", learning_rate=0.3, batch_size=100),
    ]
    alone, _ = histories(evaluator(precision=precision), [one])
    among, _ = histories(evaluator(precision=precision), [*others[:2], one, others[2]])
    assert_same(among[1], alone[1], precision)
    assert alone[1][0]["loss"] != alone[1][2]["loss"]


def own(**changes) -> Workload:
    """A user's own workload, with all that a recipe may have."""
    fields = {
        "name": "mine",
        "summary": "",
        "dataset": "digits",
        "model": lambda hidden=24, dropout=0.0: nn.Sequential(
            nn.Flatten(),
            nn.Sequential(nn.Linear(64, hidden), nn.Tanh(), nn.Dropout(dropout)),
            nn.Sequential(nn.Linear(hidden, 17), nn.ReLU()),
            nn.Linear(17, 10),
        ),
        "recipe": Recipe(
            optimizer=Adam(learning_rate=1e-2, beta1=0.9, beta2=0.999, eps=1e-8),
            batch_size=64,
            epochs=2,
            schedule=OneCycle(warmup=0.3, start=0.1, end=0.0),
            preprocess=Scale(factor=1 / 16, mean=0.3, std=0.5),
            weight_decay={"1.0.weight": 0.01, "*.bias": 0.001},
            label_smoothing=0.1,
        ),
    }
    return Workload(**(fields | changes))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_users_own_workload_with_every_part_of_a_recipe_stacks(tmp_path, precision):
    workload = own()
    given = [candidate(n, learning_rate=0.004 * (n + 1), epochs=4 - n) for n in range(3)]
    mine = evaluator(workload=workload, settings={}, precision=precision)
    assert [len(stack.networks) for stack in mine.plan(given)[0]] == [3]
    rows, _ = histories(mine, given)
    for each in given:
        run = tarmac.train(
            workload,
            seed=each.seed,
            epochs=each.epochs,
            learning_rate=each.settings["learning_rate"],
            precision=precision,
            device="cpu",
            output=tmp_path,
            **SPLIT,
        )
        assert_same(rows[each.number], run.history, precision)


def test_a_network_stops_once_its_validation_loss_has_not_fallen_for_its_patience():
    # A rate this high makes the loss jump about.
    given = [
        candidate(n, epochs=30, patience=patience, optimizer="sgd", learning_rate=2.0)
        for n, patience in enumerate((1, 3, None))
    ]
    rows, results = histories(evaluator(), given)
    for each in given:
        losses = [row["val_loss"] for row in rows[each.number]]
        assert results[each.number].metrics["epochs"] == len(losses)
        assert results[each.number].metrics["val_loss"] == losses[-1]
        waited, lowest = 0, float("inf")
        for loss in losses:
            assert each.patience is None or waited < each.patience
            waited = 0 if loss < lowest else waited + 1
            lowest = min(lowest, loss)
        assert len(losses) == 30 or waited == each.patience
    assert len(rows[0]) < 30
    assert len(rows[1]) < 30
    assert len(rows[2]) == 30


def test_a_network_that_its_watch_stops_is_a_loser_with_the_metrics_so_far():
    given = [candidate(n, epochs=4) for n in range(3)]
    rows, results = histories(evaluator(), given, lambda p: p.number == 1 and p.epoch == 2)
    assert [results[n].stopped for n in range(3)] == [False, True, False]
    assert [len(rows[n]) for n in range(3)] == [4, 2, 4]
    assert results[1].metrics["val_accuracy"] == rows[1][-1]["val_accuracy"]
    assert results[1].error is None


def test_a_network_that_diverges_fails_alone():
    given = [candidate(0), candidate(1, optimizer="sgd", learning_rate=1e30), candidate(2)]
    rows, results = histories(evaluator(), given)
    alone, _ = histories(evaluator(), [candidate(0)])
    assert "epoch 1: the training diverged" in results[1].error
    assert not results[1].metrics
    assert results[0].error is None
    assert results[2].error is None
    assert_same(rows[0], alone[0], "fp32")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "rleu"}, "unknown activation 'rleu'"),
        ({"neurons": 0}, "neurons is 0"),
        ({"optimizer": "nadm"}, "unknown optimizer"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast', expected a number"),
        ({"learning_rate": 0}, "learning_rate is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": 1.5}, "batch_size is 1.5, expected a whole number"),
        ({"dataset": "mnist"}, "dataset is 'mnist', but the search is on 'digits'"),
        ({"colour": "red"}, "unknown setting of mlp 'colour'"),
    ],
)
def test_a_candidate_that_cannot_be_fails_with_its_message_and_others_go_on(settings, message):
    given = [candidate(0, epochs=1, **settings), candidate(1, epochs=1)]
    _, results = histories(evaluator(), given)
    assert message in results[0].error
    assert results[1].error is None


def test_shapes_and_batch_sizes_make_the_stacks():
    given = [
        candidate(0),
        candidate(1, activation="tanh"),
        candidate(2, layers=3),
        candidate(3, batch_size=64),
        candidate(4, optimizer="sgd"),
    ]
    stacks, _ = evaluator().plan(given)
    members = [{n.candidate.number for n in stack.networks} for stack in stacks]
    assert sorted(members, key=min) == [{0, 1, 4}, {2}, {3}]
    described = {str(stack) for stack in stacks}
    assert "3 x 64-16-16-10, batches of 128: one stack" in described
    assert "1 x 64-16-16-16-10, batches of 128: alone, no other has its shape" in described
    _, results = histories(evaluator(), given)
    assert [results[n].num_companions for n in range(5)] == [2, 2, 0, 0, 2]
    # What takes longest begins first.
    stacks, _ = evaluator().plan([given[4], given[3], given[2]])
    assert stacks[0].networks[0].candidate.number == 2


def test_on_a_gpu_networks_of_all_widths_and_depths_make_one_stack():
    candidates = [
        candidate(0),
        candidate(1, activation="tanh"),
        candidate(2, layers=3),
        candidate(3, batch_size=64),
        candidate(4, neurons=24),
    ]
    mine = evaluator()
    gpu = dataclasses.replace(mine.device, type="cuda", available_bytes=2**40)
    planner = evaluator(device=gpu, precision="fp32")
    stacks, _ = planner.plan(candidates)
    members = [[n.candidate.number for n in stack.networks] for stack in stacks]
    assert sorted(members, key=len) == [[3], [4, 2, 0, 1]]
    assert "4 networks of 3 shapes, batches of 128: one stack" in map(str, stacks)
    # Two processes have about as much work; the largest networks are in different stacks.
    stacks, _ = planner.plan(candidates[:3] + candidates[4:], at_once=2)
    assert [[n.candidate.number for n in stack.networks] for stack in stacks] == [[4, 0], [2, 1]]
    small = evaluator(device=dataclasses.replace(gpu, available_bytes=1_200_000), precision="fp32")
    stacks, _ = small.plan(candidates[:3] + candidates[4:])
    assert len(stacks) == 2
    assert "one of 2 stacks: a network takes up to" in stacks[0].reason


def test_networks_of_several_shapes_train_by_shape_without_the_kernels(monkeypatch):
    candidates = [candidate(0), candidate(1, layers=3), candidate(2)]
    alone, _ = histories(evaluator(), candidates)
    monkeypatch.setattr(
        "tarmac.studies.evaluation.stacked.evaluator.group",
        lambda networks, *_: [Stack(tuple(networks), "all")],
    )
    together, results = histories(evaluator(), candidates)
    assert together == alone
    assert [results[n].num_companions for n in range(3)] == [1, 0, 1]


def test_a_stack_is_cut_to_what_the_memory_holds():
    mine = evaluator()
    small = evaluator(device=dataclasses.replace(mine.device, available_bytes=700_000))
    stacks, _ = small.plan([candidate(n) for n in range(5)])
    sizes = [len(stack.networks) for stack in stacks]
    assert sum(sizes) == 5
    assert len(sizes) > 1
    assert max(sizes) - min(sizes) <= 1
    assert "stacks: each network takes" in stacks[0].reason


@pytest.mark.filterwarnings("ignore:out of memory on cpu with")
def test_out_of_memory_halves_the_stack_until_a_network_alone_does_not_fit(monkeypatch):
    tried = []

    def limited(networks, *rest, **options):
        tried.append([n.candidate.number for n in networks])
        if len(networks) > 2 or 3 in tried[-1]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return _stack.train_stack(networks, *rest, **options)

    monkeypatch.setattr("tarmac.studies.evaluation.stacked.evaluator.train_stack", limited)
    _, results = histories(evaluator(), [candidate(n, epochs=1) for n in range(4)])
    assert tried == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [3]]
    assert results[3].error == "out of memory on cpu, even alone"
    assert [results[n].error for n in range(3)] == [None] * 3
    assert [results[n].num_companions for n in range(3)] == [1, 1, 0]


def test_an_error_of_the_watch_reaches_the_caller_and_ends_the_training():
    def report(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        [*evaluator().evaluate([candidate(0), candidate(1, layers=1)], report)]


def test_closing_the_iterator_stops_the_training():
    seen = []

    def report(progress):
        seen.append(progress.number)
        return False

    given = [candidate(0, epochs=1), candidate(1, epochs=50)]
    going = evaluator().evaluate(given, report)
    assert next(going).number == 0
    going.close()
    assert 0 < seen.count(1) < 50


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), None),
        (lambda: nn.Sequential(nn.Conv2d(1, 1, 3), nn.Flatten()), "layer 0 is Conv2d"),
        (lambda: nn.Linear(64, 10), None),
        (
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.ReLU()),
            "its last layer is not a Linear",
        ),
        (
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.GELU(), nn.Linear(9, 10)),
            "layer 2 is GELU",
        ),
        (
            lambda: nn.Sequential(nn.Linear(64, 9, bias=False), nn.ReLU(), nn.Linear(9, 10)),
            "layer 0 has no bias",
        ),
        (
            lambda: nn.Sequential(nn.Linear(64, 9), nn.Dropout(), nn.ReLU(), nn.Linear(9, 10)),
            "layer 1 is Dropout",
        ),
    ],
)
def test_what_cannot_be_stacked_is_told_by_its_layers(model, message):
    reason = can_stack(own(model=model), data.load("digits"))
    assert reason is None if message is None else reason.startswith(message)


def test_preprocessing_of_ones_own_cannot_be_stacked():
    def preprocess(inputs, *, training, dtype):
        return inputs.to(dtype)

    mine = own(recipe=dataclasses.replace(own().recipe, preprocess=preprocess, weight_decay={}))
    reason = can_stack(mine, data.load("digits"))
    assert reason.startswith("its preprocessing is a function of its own")
    (result,) = evaluator(workload=mine, settings={}).evaluate([candidate()], lambda p: False)
    assert result.error.endswith(f"it cannot be stacked: {reason}")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"drop_last": True, "augment": CropAndFlip(shift=1)}, "its recipe has drop_last, augment"),
        (
            {
                "optimizer": Muon(
                    learning_rate=0.1, momentum=0.9, nesterov=True, iterations=5, fixed_norm=False
                )
            },
            "its recipe has the optimizer Muon",
        ),
    ],
)
def test_what_stacks_do_not_do_is_named(parts, message):
    mine = own(recipe=dataclasses.replace(own().recipe, weight_decay={}, **parts))
    assert can_stack(mine, data.load("digits")) == message
    (result,) = evaluator(workload=mine, settings={}).evaluate([candidate()], lambda p: False)
    assert message in result.error


def test_weights_that_the_data_set_cannot_be_stacked():
    mine = dataclasses.replace(own(), initialise=lambda network, inputs: None)
    assert can_stack(mine, data.load("digits")) == "its weights are set from the data"


def test_a_network_without_hidden_layers_stacks_too():
    linear = own(
        model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)),
        recipe=dataclasses.replace(own().recipe, weight_decay={}),
    )
    _, results = histories(evaluator(workload=linear, settings={}), [candidate(0), candidate(1)])
    assert all(result.error is None for result in results.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation_size": 0}, "validation_size is 0"),
        ({"train_size": 1400}, "train_size is 1400, but digits has 1338 samples"),
        ({"precision": "fp64"}, "precision is 'fp64', expected auto, fp32 or bf16"),
    ],
)
def test_an_evaluator_that_cannot_be_is_refused(options, message):
    with pytest.raises(RequestError, match=message):
        evaluator(**options)


def test_candidates_of_one_number_are_refused_before_anything_starts():
    with pytest.raises(RequestError, match="equal numbers"):
        evaluator().evaluate([candidate(1), candidate(1)], lambda progress: False)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_backward_pass_is_autograds(smoothing):
    generator = torch.Generator().manual_seed(0)
    sizes, networks, batch = (7, 11, 5, 3), len(ACTIVATIONS), 9
    layout = Layout(sizes, networks)
    values = torch.randn(layout.num_elements, generator=generator) * 0.5
    gradients = torch.zeros_like(values)
    activations = [(name, name) for name in ACTIVATIONS]
    arithmetic = Arithmetic(layout, values, gradients, activations, smoothing)
    seeds = [*range(networks)]
    masks = Masks(seeds, [(0.3, 0.5)] * networks, batch * 11, values.device, values.dtype)
    inputs = torch.randn(networks, batch, 7, generator=generator)
    targets = torch.randint(3, (networks, batch), generator=generator)
    work = Workspace(networks, batch, sizes, values)
    loss, right = arithmetic.compute(inputs, targets, work, masks, masks.draw_epoch(1)[0])

    functions = {"relu": F.relu, "elu": F.elu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}
    for index, name in enumerate(ACTIVATIONS):
        leaves = [row[index].clone().requires_grad_() for row in layout.rows(values)]
        hidden = inputs[index]
        for layer, (rows, columns) in enumerate(itertools.pairwise(sizes)):
            weight, bias = leaves[2 * layer].view(rows, columns), leaves[2 * layer + 1]
            hidden = hidden @ weight + bias
            if layer < 2:
                hidden = functions[name](hidden) * work.masks[layer][index]
        expected = F.cross_entropy(hidden, targets[index], label_smoothing=smoothing)
        assert loss[index].item() / batch == pytest.approx(expected.item(), rel=1e-5)
        assert right[index] == (hidden.argmax(1) == targets[index]).sum()
        wanted = torch.autograd.grad(expected, leaves)
        for ours, theirs in zip(layout.rows(gradients), wanted, strict=True):
            torch.testing.assert_close(ours[index], theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_masks_drop_at_their_rate_and_keep_the_expectation(dtype):
    rates = (0.0, 0.2, 0.5, 1.0)
    masks = Masks([1, 2, 3, 4], [(p, 0.0) for p in rates], 128 * 100, torch.device("cpu"), dtype)
    assert masks.layers == [True, False]
    steps = []
    for coefficients in masks.draw_epoch(4):
        mask = torch.empty(4, 128, 100, dtype=dtype)
        masks.draw(0, coefficients, mask)
        steps.append(mask)
    for index, p in enumerate(rates):
        kept = torch.stack([mask[index] for mask in steps]) != 0
        assert kept.float().mean().item() == pytest.approx(1 - p, abs=0.01)
        if p < 1:
            values = steps[0][index][kept[0]]
            assert values.float().unique().item() == pytest.approx(1 / (1 - p), rel=0.004)
            # Two steps, and neighbours in one, are dropped independently.
            both = (kept[0] & kept[1]).float().mean().item()
            beside = (kept[:, :, 1:] & kept[:, :, :-1]).float().mean().item()
            assert both == pytest.approx((1 - p) ** 2, abs=0.015)
            assert beside == pytest.approx((1 - p) ** 2, abs=0.015)
    assert not torch.equal(steps[0][1], steps[1][1])


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:networks train without the fused kernels")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("computed_by", ["kernels", "products"])
def test_a_stack_on_a_gpu_is_as_on_the_cpu(monkeypatch, computed_by, precision):
    settings = SETTINGS
    if computed_by == "products":
        monkeypatch.setattr(_stack, "why_unusable", lambda device: "not here")
    else:
        # The kernels draw dropout by a generator of their own.
        settings = {**SETTINGS, "dropout": 0.0}
    given = [
        candidate(n, optimizer=optimizer, activation=ACTIVATIONS[n % 4], epochs=1 + n % 3)
        for n, optimizer in enumerate(OPTIMIZERS)
    ]
    there, _ = histories(evaluator(device="cuda:0", precision=precision, settings=settings), given)
    here, _ = histories(evaluator(precision=precision, settings=settings), given)
    for number, rows in here.items():
        assert_same(there[number], rows, precision)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:networks train without the fused kernels")
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("computed_by", ["kernels", "products"])
def test_recorded_steps_on_a_gpu_are_the_same_in_any_stack(monkeypatch, computed_by, dropout):
    if computed_by == "products":
        monkeypatch.setattr(_stack, "why_unusable", lambda device: "not here")
    # Enough steps of an epoch for recordings of several, and a rest.
    given = [
        candidate(
            n, optimizer=optimizer, activation=ACTIVATIONS[n % 4], epochs=1 + n % 3, batch_size=8
        )
        for n, optimizer in enumerate(OPTIMIZERS)
    ]
    mine = evaluator(device="cuda:0", settings={**SETTINGS, "dropout": dropout})
    among, _ = histories(mine, given)
    for each in given:
        alone, _ = histories(mine, [each])
        assert_same(among[each.number], alone[each.number], "fp32")
