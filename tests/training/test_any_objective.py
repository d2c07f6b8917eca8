"""Any data by any objective: the same on every strategy and feed, and resumed to the same bits."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from objective_cases import DATA, SHARED, WORKLOADS, Language, train_case
from torch import nn

from tarmac import RequestError, TarmacError
from tarmac.data import Dataset, Split, Subset, windows
from tarmac.runs import Run
from tarmac.testing import workloads
from tarmac.testing.faults import failing_once
from tarmac.testing.strategies import assert_close, weights_of
from tarmac.training import build_model, resume, train
from tarmac.training.engine.columns import Arrangement, put_on
from tarmac.training.engine.feeds import open_feed
from tarmac.workloads import Classification, NextToken, Objective, Regression
from waiting import limit_s

CPU = torch.device("cpu")
SCORES = ("test_", "val_", "train_loss")


def scores_of(run: Run) -> dict[str, float]:
    return {name: value for name, value in run.metrics.items() if name.startswith(SCORES)}


@pytest.mark.parametrize("check", workloads.CHECKS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_objective_trains_resumes_and_is_shared_by_two_towers(tmp_path, check, name):
    check(WORKLOADS[name], DATA[name], tmp_path)


def test_ranks_make_the_weights_and_the_scores_of_one_device(tmp_path):
    script = Path(__file__).with_name("objective_cases.py")
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    done = subprocess.run(
        [sys.executable, "-m", *command, tmp_path / "ddp"],
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s(200),
    )
    assert done.returncode == 0, done.stderr
    for name in SHARED:
        ranks = Run.open(next((tmp_path / "ddp" / name).iterdir()))
        single = train_case(name, tmp_path / "single")
        assert_close(weights_of(ranks), weights_of(single), 1e-12, name)
        assert scores_of(ranks) == pytest.approx(scores_of(single), rel=1e-10), name


@pytest.mark.parametrize("name", ["tokens", "weighted"])
def test_ranks_that_failed_go_on_to_the_same_bits(tmp_path, name):
    options = {"devices": "cpu:2", "strategy": "ddp", "precision": "fp64", "validation_size": 10}
    reference = f"{Path(__file__).with_name('objective_cases.py')}:failing_{name}"
    whole = train(reference, output=tmp_path / "whole", **options)
    # A rank takes one part of each of an epoch's three steps: the fifth call is in the second.
    with (
        failing_once(tmp_path / "failed-once", 5),
        pytest.raises(TarmacError, match="failed on purpose"),
    ):
        train(reference, output=tmp_path / "resumed", **options)
    (path,) = (tmp_path / "resumed").iterdir()
    resumed = resume(path)
    assert scores_of(resumed) == scores_of(whole)
    for key, value in weights_of(whole).items():
        assert torch.equal(weights_of(resumed)[key], value), key


@pytest.mark.parametrize("name", ["several", "tokens", "weighted"])
def test_every_feed_makes_the_same_bits(tmp_path, name):
    runs = [train_case(name, tmp_path / feed, feed=feed) for feed in ("resident", "direct")]
    runs.append(train_case(name, tmp_path / "prefetch", feed="prefetch"))
    for run in runs[1:]:
        assert scores_of(run) == scores_of(runs[0])
        for key, value in weights_of(runs[0]).items():
            assert torch.equal(weights_of(run)[key], value)


def test_scores_have_the_names_of_the_metrics(tmp_path):
    run = train_case("several", tmp_path)
    assert {"loss", "off_by", "val_loss", "val_off_by"} <= run.history[-1].keys()
    assert {"test_loss", "test_off_by", "train_off_by", "val_off_by"} <= run.metrics.keys()
    assert "test_accuracy" not in run.metrics
    assert run.record.configuration["objective"] == {
        "kind": "Objective",
        "judged_by": "off_by",
        "direction": "min",
        "metrics": ["off_by"],
    }
    assert run.record.dataset["sample_shape"] == {"table": [5], "kind": []}


def test_a_score_is_the_mean_by_weights(tmp_path):
    run = train_case("weighted", tmp_path, validation_size=0)
    split = DATA["weighted"].test
    model = build_model(WORKLOADS["weighted"], {"sample_shape": (5,)}, 0)
    model.load_state_dict(weights_of(run))
    with torch.no_grad():
        values = model(torch.tensor(split.inputs))[:, 0]
    losses = nn.functional.huber_loss(
        values, torch.tensor(split.targets), reduction="none", delta=0.5
    )
    expected = np.average(losses.numpy(), weights=split.weights)
    assert run.metrics["test_loss"] == pytest.approx(expected, rel=1e-5)


def test_a_sample_of_weight_zero_is_as_good_as_none(tmp_path):
    weights = np.ones(60, np.float32)
    weights[7] = 0
    inputs, targets = DATA["table"].train.arrays
    other = inputs.copy()
    other[7] = 1e3
    found = []
    for array in (inputs, other):
        split = Split(array, targets, weights)
        dataset = Dataset("weighted", split, split)
        workload = dataclasses.replace(WORKLOADS["table"], dataset=lambda d=dataset: d)
        found.append(weights_of(train(workload, output=tmp_path, devices="cpu", seed=0)))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_padding_does_not_count_for_the_next_token():
    output = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[1, 2, 3, 4], [1, 2, -1, -1], [-1, -1, -1, -1]])
    losses = NextToken(ignore_index=-1).loss(output, targets)
    assert losses[0] == pytest.approx(nn.functional.cross_entropy(output[0], targets[0]).item())
    first = nn.functional.cross_entropy(output[1, :2], targets[1, :2])
    assert losses[1] == pytest.approx(first.item())
    assert losses[2] == 0


def test_windows_are_views_that_no_feed_copies_whole():
    tokens = np.arange(10_000, dtype=np.uint16)
    split = windows(tokens, 128, stride=1)
    assert np.shares_memory(split.inputs, tokens)
    assert len(split) == 10_000 - 128
    assert split.nbytes() == tokens.nbytes
    assert np.array_equal(split.inputs[:, 1:], split.targets[:, :-1])
    order = torch.tensor([5, 3, 9000])
    for name in ("resident", "prefetch", "direct"):
        feed = open_feed(name, Subset.whole(split), 3, CPU)
        (handed,) = feed.batches(order, [(0, 3)])
        inputs, targets = feed.samples(*handed)
        assert inputs[:, 0].tolist() == [5, 3, 9000]
        assert targets[:, -1].tolist() == [133, 131, 9128]
        assert inputs.dtype == torch.int32


def test_on_another_device_windows_stay_one_stream_of_tokens():
    tokens = np.arange(1000, dtype=np.int64)
    split = windows(tokens, 64, stride=4)
    meta = put_on(torch.device("meta"), Subset.whole(split), 10, 200)
    assert len({tensor.untyped_storage()._cdata for tensor in meta}) == 1
    inputs, targets = meta
    assert (inputs.stride(), inputs.storage_offset()) == ((4, 1), 0)
    assert (targets.stride(), targets.storage_offset()) == ((4, 1), 1)
    assert inputs.untyped_storage().nbytes() == (189 * 4 + 64 + 1) * 8


def test_a_batch_has_the_form_of_its_split():
    split = DATA["several"].train
    arrangement = Arrangement(split)
    tensors = [torch.tensor(column[:2]) for column in split.columns.values()]
    inputs, targets = arrangement.batch(tensors)
    assert list(inputs) == ["table", "kind"]
    assert list(targets) == ["value", "unused"]
    assert arrangement.weights(tensors) is None
    assert Arrangement(Split(split.inputs)).batch(tensors[:2])[1] is None


def one(workload, **changes):
    return dataclasses.replace(WORKLOADS[workload], **changes)


def dataset_of(*args, **kwargs):
    split = Split(*args, **kwargs)
    return lambda: Dataset("mine", split, split)


X, Y = DATA["table"].train.arrays


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (one("table", dataset=dataset_of(X, Y[:7])), "train has 60 inputs and 7 targets"),
        (
            one("several", dataset=dataset_of({"table": X, "kind": Y[:3]}, Y)),
            "train has 60 inputs and 3 inputs.kind",
        ),
        (
            one("table", dataset=dataset_of(np.where(np.arange(60) == 9, np.nan, Y)[:, None], Y)),
            r"train.inputs hold a value that is not finite in sample 9 \(from 0\)",
        ),
        (
            one("table", dataset=dataset_of(X, Y, -np.ones(60, np.float32))),
            r"train.weights are -1.0 in sample 0 \(from 0\), expected none below 0",
        ),
        (
            one("table", objective=Classification()),
            "table is a classifier, but samples has no number of classes",
        ),
        (
            one("weighted", objective=WORKLOADS["mean"].objective),
            r"the loss has shape \[\] for 2 samples, expected one value of each, \[2\]",
        ),
        (
            one("table", objective=Objective(loss=lambda o, t: (o - t[:, None]).abs())),
            r"the loss has shape \[2, 1\] for 2 samples, expected one value of each, \[2\], or a "
            "scalar that is their mean",
        ),
        (
            one("table", objective=Objective(loss=lambda o, t: 3.0)),
            "the loss returns a float, expected a tensor",
        ),
        (
            one("table", objective=Objective(loss=lambda o, t: o.detach()[:, 0])),
            "the loss has no gradient",
        ),
        (one("table", dataset=lambda: None), "the dataset of table returns a NoneType"),
        (
            one("table", dataset=dataset_of(X.astype(np.longdouble), Y)),
            "train.inputs are (float128|longdouble) of 2 dimensions, expected numbers or bools",
        ),
        (
            one("table", objective=Objective(loss=lambda o, t: o.foo)),
            "the objective Objective refuses what the model returns for 2 samples: .*foo",
        ),
        (
            one("table", model=lambda: nn.Linear(5, 3)),
            r"the model returns \[2, 3\] where targets of \[2\] are wanted",
        ),
        (
            one("tokens", model=lambda: Language(20)),
            r"train.inputs have token 2[0-2] in sample 0 \(from 0\), and the model's embedding has "
            "20: 0 to 19",
        ),
        (
            one("table", model=WORKLOADS["weighted-classes"].model),
            "the model of table needs num_classes, which samples does not have",
        ),
        (one("several", model=lambda: nn.Linear(5, 2)), r"refuses a batch of table \[2, 5\], kind"),
    ],
)
def test_what_does_not_fit_is_said_in_words(tmp_path, workload, message):
    with pytest.raises(RequestError, match=message):
        train(workload, output=tmp_path, devices="cpu")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Objective(loss=abs, judged_by="error"), "metric in judged_by"),
        (lambda: Objective(loss=abs, metrics={"val_error": abs}), "named 'val_error'"),
        (lambda: Objective(loss=abs, metrics={"seconds": abs}), "named 'seconds'"),
        (lambda: Objective(loss=abs, direction="up"), "direction is 'up', expected max or min"),
        (lambda: Regression("rmse"), "regression loss"),
        (lambda: Regression("huber", delta=0), "delta is 0, expected above 0"),
        (lambda: windows(np.zeros(4), 2), "tokens are float64 of 1 dimensions, expected integers"),
        (lambda: windows(np.zeros(4, np.int64), 4), "4 tokens are too few"),
    ],
)
def test_an_objective_that_cannot_be_is_refused(made, message):
    with pytest.raises(RequestError, match=message):
        made()


def test_the_line_of_an_epoch_names_its_metrics(tmp_path):
    run = train_case("table", tmp_path)
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert lines[1]["mae"] < lines[0]["mae"]


def log_of(output, targets):
    """Is not a number where the target is below the output by more than 3."""
    return torch.log(targets - output[:, 0] + 3)


def test_a_loss_that_is_lost_is_traced_to_its_step_sample_and_layer(tmp_path):
    wanted = Y.copy()
    wanted[17] = -99
    workload = one("table", dataset=dataset_of(X, wanted), objective=Objective(loss=log_of))
    with pytest.raises(TarmacError, match="has diverged") as caught:
        train(workload, output=tmp_path, devices="cpu")
    place = r"in step [123] of epoch 1, for sample 17 of train \(from 0\)\)$"
    assert re.search(place, caught.value.message)
    # Before the first step the weights are those that were drawn.
    is_first = "in step 1 of" in caught.value.message
    words = "No step was taken before" if is_first else "Try a lower --lr."
    assert caught.value.hint.startswith(words)


class Root(nn.Module):
    """Returns no number for a table whose first value is below zero."""

    def forward(self, table):
        return table[:, :1].sqrt()


def test_the_first_layer_that_gives_no_number_is_named(tmp_path):
    table = np.abs(X)
    table[[4, 8], 0] = -1
    model = lambda: nn.Sequential(nn.Identity(), Root(), nn.Linear(1, 1))  # noqa: E731
    workload = one("table", dataset=dataset_of(table, Y), model=model)
    recipe = dataclasses.replace(workload.recipe, batch_size=60)
    with pytest.raises(TarmacError) as caught:
        train(dataclasses.replace(workload, recipe=recipe), output=tmp_path, devices="cpu")
    assert "first layer whose output is not is 1 (Root)" in caught.value.message
    assert re.search("for samples (4, 8|8, 4) of train", caught.value.message)
