"""``--steps N``: the first steps of a training and no more, as it would have done them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tarmac
from tarmac import RequestError
from tarmac.training.planning.flops import count_forward_flops
from tarmac.training.shares import Shares
from tarmac.workloads import find_workload

OPTIONS = {"devices": "cpu", "precision": "fp32", "train_size": 320}


def test_its_steps_are_those_of_the_whole_training(tmp_path):
    whole = tarmac.train("digits-mlp", epochs=3, output=tmp_path / "whole", **OPTIONS)
    trial = tarmac.train("digits-mlp", epochs=3, steps=13, output=tmp_path / "trial", **OPTIONS)
    first, rest = trial.history
    same = ("epoch", "loss", "accuracy", "learning_rate")
    assert {key: first[key] for key in same} == {key: whole.history[0][key] for key in same}
    assert rest["steps"] == 3
    # The rate is that of step 13 of 30.
    recipe = find_workload("digits-mlp").recipe
    assert rest["learning_rate"] == pytest.approx(recipe.learning_rates(12 / 30)[0])


def test_it_says_how_fast_it_was_and_claims_nothing(tmp_path):
    run = tarmac.train("digits-mlp", steps=13, output=tmp_path, **OPTIONS)
    record = run.record
    assert (record.status, record.stopped_early) == (
        "completed",
        "a trial of 13 steps, as requested",
    )
    assert record.expectation is None
    assert not any(name.startswith("test_") for name in record.metrics)
    assert record.metrics["samples_per_s"] > 0
    # Backwards takes twice what forwards takes (`plan.sample_flops`).
    forward = 2 * (64 * 128 + 128 * 128 + 128 * 10)
    per_sample = record.metrics["flops_per_s"] / record.metrics["samples_per_s"]
    assert per_sample == pytest.approx(3 * forward)
    assert record.metrics["setup_s"] == run.history[0]["setup_s"]
    assert not run.model.exists()
    assert not [*run.checkpoints.iterdir()]
    with pytest.raises(RequestError, match="completed, there is nothing to resume"):
        tarmac.resume(run.path)


def test_one_that_is_interrupted_goes_on_to_its_end(tmp_path):
    asked = iter(range(100))
    cut = tarmac.train(
        "digits-mlp", steps=13, output=tmp_path, interrupted=lambda: next(asked) > 4, **OPTIONS
    )
    assert cut.record.status == "interrupted"
    run = tarmac.resume(cut.path)
    assert run.record.stopped_early == "a trial of 13 steps, as requested"
    assert [row.get("steps") for row in run.history] == [None, 3]


def test_more_steps_than_there_are_is_refused(tmp_path):
    with pytest.raises(RequestError, match="steps is 31, but the whole training has 30"):
        tarmac.train("digits-mlp", epochs=3, steps=31, output=tmp_path, **OPTIONS)
    with pytest.raises(RequestError, match="steps is 0, expected at least 1"):
        tarmac.train("digits-mlp", steps=0, output=tmp_path, **OPTIONS)


def test_micro_batches_end_with_the_last_step():
    shares = Shares(num_samples=100, batch_size=8, num_replicas=1, accumulate=2)
    assert shares.micro_batches(2, 0, 4) == shares.micro_batches(0, 0)[4:8]


@pytest.mark.parametrize(
    ("model", "shape", "expected"),
    [
        (nn.Linear(5, 7), (3, 5), 2 * 3 * 5 * 7),
        (nn.Conv2d(4, 8, 3, groups=2), (1, 4, 10, 10), 2 * 8 * 2 * 9 * 64),
        (nn.ConvTranspose2d(8, 3, 2, stride=2), (1, 8, 8, 8), 2 * 8 * 3 * 4 * 64),
        (
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
            (1, 5, 16),
            2 * 5 * (4 * 16 * 16 + 2 * 16 * 32) + 4 * 5 * 5 * 16,
        ),
    ],
)
def test_products_convolutions_and_attention_count(model, shape, expected):
    flops, output = count_forward_flops(model, torch.rand(shape))
    assert flops == expected
    assert output.shape[0] == shape[0]
    assert model.training


def test_several_processes_end_after_the_same_step(tmp_path):
    run = tarmac.train(
        "digits-mlp", steps=13, strategy="ddp", output=tmp_path, **OPTIONS | {"devices": "cpu:2"}
    )
    assert run.history[-1]["steps"] == 3
    assert [len(run.history), run.record.parallel.world_size] == [2, 2]


def test_more_epochs_of_a_trial_have_nothing_to_go_on_from(tmp_path):
    run = tarmac.train("digits-mlp", steps=13, output=tmp_path, **OPTIONS)
    with pytest.raises(RequestError, match="has no checkpoint to continue from"):
        tarmac.extend(run.path, epochs=50)
