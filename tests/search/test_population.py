"""Networks trained as one stack become what they become alone."""

from __future__ import annotations

import pytest

import tarmac
from tarmac import data
from tarmac.search._evaluator import Candidate
from tarmac.search.population import StackedEvaluator
from tarmac.workloads import find_workload

OPTIMIZERS = ("rmsprop", "adam", "sgd", "adagrad", "adadelta", "adamax", "nadam")
ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")
SETTINGS = {"dataset": "digits", "neurons": 16, "layers": 2}
SPLIT = {"train_size": 300, "validation_size": 100}
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

    def watch(progress):
        rows[progress.number].append(dict(progress.metrics))
        assert progress.epoch == len(rows[progress.number])
        return stop(progress)

    results = {result.number: result for result in evaluator.evaluate(candidates, watch)}
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
        assert results[each.number].together == len(OPTIMIZERS) - 1
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
