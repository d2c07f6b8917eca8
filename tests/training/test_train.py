"""Training as a user does it, on real data, through `tarmac.training` and the command line."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import tarmac
from tarmac import RequestError, TarmacError, data, runs
from tarmac.machine import find_devices
from tarmac.training import Silent, find_strategy
from tarmac.training.planning.memory import check_memory
from tarmac.workloads import SGD, Adam, Recipe, Scale, Workload, find_workload


def weights(run: runs.Run) -> dict[str, torch.Tensor]:
    return load_file(run.model)


def assert_same_weights(first: runs.Run, second: runs.Run) -> None:
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


def test_the_embedded_workload_reaches_what_is_expected(tmp_path):
    run = tarmac.train("digits-mlp", output=tmp_path)
    assert run.record.status == "completed"
    assert run.record.expectation["met"], run.record.expectation["text"]
    assert run.metrics["test_accuracy"] >= 0.96
    assert [row["epoch"] for row in run.history] == list(range(1, 41))


def test_a_run_says_everything_that_made_it(tmp_path):
    run = tarmac.train(
        "digits-mlp",
        epochs=1,
        batch_size=50,
        learning_rate=0.01,
        output=tmp_path,
        settings={"hidden": "16", "optimizer.beta2": 0.99},
    )
    configuration = json.loads((run.path / "run.json").read_text())["configuration"]
    assert configuration["batch_size"] == 50
    assert configuration["learning_rate"] == 0.01
    assert configuration["settings"]["hidden"] == 16
    assert configuration["settings"]["optimizer.beta2"] == 0.99
    assert configuration["settings"]["optimizer.beta1"] == 0.9
    assert configuration["devices"] in ("cpu", "cuda:0")
    assert weights(run)["1.weight"].shape == (16, 64)
    row = run.history[0]
    assert row.keys() == {
        "epoch",
        "loss",
        "accuracy",
        "learning_rate",
        "samples_per_s",
        "seconds",
        "data_wait_s",
        "memory_bytes",
        "at_s",
        "setup_s",
    }
    assert run.metrics["setup_s"] == row["setup_s"] > 0
    whole_s = (run.record.ended_at - run.record.created_at).total_seconds()
    assert row["seconds"] <= row["at_s"] <= whole_s


def plain_digits(*, epochs: int, batch_size: int) -> dict[str, torch.Tensor]:
    """Train digits-mlp without dropout by a plain PyTorch loop over the engine's orders."""
    torch.manual_seed(0)
    model = find_workload("digits-mlp").model(dropout=0.0)
    split = data.load("digits").train
    inputs, targets = torch.from_numpy(split.inputs), torch.from_numpy(split.targets)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    steps = -(-len(targets) // batch_size)
    for epoch in range(epochs):
        order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(epoch))
        for step, index in enumerate(order.split(batch_size)):
            progress = (epoch + step / steps) / epochs
            factor = 0.2 + 0.8 * progress / 0.1 if progress < 0.1 else (1 - progress) / 0.9
            optimizer.param_groups[0]["lr"] = 3e-3 * factor
            optimizer.zero_grad()
            F.cross_entropy(model(inputs[index] / 16), targets[index]).backward()
            optimizer.step()
    return model.state_dict()


def test_the_engine_trains_as_a_plain_loop_does(tmp_path):
    run = tarmac.train(
        "digits-mlp",
        epochs=3,
        batch_size=100,
        output=tmp_path,
        device="cpu",
        precision="fp32",
        settings={"dropout": 0.0},
    )
    for name, value in plain_digits(epochs=3, batch_size=100).items():
        torch.testing.assert_close(weights(run)[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_the_recorded_score_is_that_of_the_recorded_weights(tmp_path):
    run = tarmac.train("digits-mlp", epochs=4, output=tmp_path, device="cpu", precision="fp32")
    model = find_workload("digits-mlp").model().eval()
    model.load_state_dict(weights(run))
    test = data.load("digits").test
    logits = model(torch.from_numpy(test.inputs) / 16)
    right = (logits.argmax(1) == torch.from_numpy(test.targets)).double().mean().item()
    assert run.metrics["test_accuracy"] == pytest.approx(right)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_same_seed_gives_the_same_weights_and_another_gives_others(tmp_path, precision):
    options = {"epochs": 2, "output": tmp_path, "device": "cpu", "precision": precision}
    first, again = (tarmac.train("digits-mlp", seed=1, **options) for _ in range(2))
    other = tarmac.train("digits-mlp", seed=2, **options)
    assert_same_weights(first, again)
    assert not torch.equal(weights(first)["1.weight"], weights(other)["1.weight"])


def test_training_leaves_the_callers_random_state_alone(tmp_path):
    before = torch.get_rng_state()
    tarmac.train("digits-mlp", epochs=1, output=tmp_path, deterministic=True)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("mode", ["default", "warn", "error"])
def test_training_leaves_the_callers_modes_as_they_were(tmp_path, mode):
    torch.set_deterministic_debug_mode(mode)
    torch.set_flush_denormal(True)
    try:
        before = torch.get_deterministic_debug_mode()
        tarmac.train("digits-mlp", epochs=1, output=tmp_path, deterministic=mode == "default")
        assert torch.get_deterministic_debug_mode() == before
        assert torch.tensor(1e-310, dtype=torch.float64) * 1 == 0
        torch.set_flush_denormal(False)
        tarmac.train("digits-mlp", epochs=1, output=tmp_path)
        assert torch.tensor(1e-310, dtype=torch.float64) * 1 > 0
    finally:
        torch.set_flush_denormal(False)
        torch.set_deterministic_debug_mode("default")


def test_an_optimizer_of_a_recipe_need_not_be_among_those_to_choose_from(tmp_path):
    offered = {"nesterov": SGD(learning_rate=0.1, momentum=0.9, nesterov=True)}
    mine = custom(optimizers=offered)
    run = tarmac.train(mine, epochs=1, output=tmp_path)
    assert run.record.configuration["optimizer"] == "Adam"
    run = tarmac.train(mine, epochs=1, output=tmp_path, settings={"optimizer": "nesterov"})
    assert run.record.configuration["optimizer"] == "SGD"


def test_held_out_samples_are_scored_every_epoch_and_not_trained_on(tmp_path):
    run = tarmac.train("digits-mlp", epochs=3, validation_size=238, output=tmp_path)
    assert run.record.configuration["train_size"] == 1200
    assert all(0 < row["val_accuracy"] <= 1 for row in run.history)
    assert run.metrics["val_accuracy"] == run.history[-1]["val_accuracy"]


# A rate at which digits' validation loss soon ceases to fall.
JUMPY = {"learning_rate": 0.05, "validation_size": 238, "settings": {"schedule.start": 1.0}}


def waited(losses: list[float]) -> int:
    """Return for how many epochs a loss has not fallen."""
    return len(losses) - 1 - losses.index(min(losses))


@pytest.mark.parametrize("strategy", ["single", "ddp"])
def test_a_training_stops_once_its_validation_loss_has_not_fallen_for_its_patience(
    tmp_path, strategy
):
    devices = "cpu:2" if strategy == "ddp" else "cpu"
    options = {"strategy": strategy, "devices": devices, "monitor": "val_loss", "patience": 2}
    run = tarmac.train("digits-mlp", output=tmp_path, **options, **JUMPY)
    losses = [row["val_loss"] for row in run.history]
    assert len(losses) < 40
    assert waited(losses) == 2
    assert all(waited(losses[:count]) < 2 for count in range(1, len(losses)))
    assert run.record.status == "completed"
    assert run.record.configuration["patience"] == 2
    assert run.metrics["val_loss"] == losses[-1]


def test_patience_survives_a_stop(tmp_path):
    whole = tarmac.train("digits-mlp", patience=2, output=tmp_path / "whole", **JUMPY)
    last = len(whole.history)

    class Stop(Silent):
        def stepped(self, epoch, step, score):
            if (epoch, step) == (last, 1):
                os.kill(os.getpid(), signal.SIGTERM)

    stopped = tarmac.train(
        "digits-mlp", patience=2, output=tmp_path / "stopped", reporter=Stop(), **JUMPY
    )
    assert stopped.record.status == "interrupted"
    resumed = tarmac.resume(stopped.path)
    assert len(resumed.history) == last
    assert_same_weights(resumed, whole)


def test_a_resumed_run_keeps_the_dataset_the_optimizer_and_the_network_that_were_chosen(tmp_path):
    class Stop(Silent):
        def stepped(self, epoch, step, score):
            if (epoch, step) == (2, 3):
                os.kill(os.getpid(), signal.SIGTERM)

    chosen = {"dataset": "digits", "optimizer": "nadam", "layers": 1, "neurons": "32"}
    options = {"epochs": 3, "settings": chosen, "learning_rate": 0.004, "device": "cpu"}
    stopped = tarmac.train("mlp", output=tmp_path / "stopped", reporter=Stop(), **options)
    assert stopped.record.status == "interrupted"
    resumed = tarmac.resume(stopped.path)
    assert resumed.record.configuration["optimizer"] == "Nadam"
    assert_same_weights(resumed, tarmac.train("mlp", output=tmp_path / "whole", **options))


def test_the_command_line_says_that_a_training_stopped_early(tmp_path):
    command = "train digits-mlp --lr 0.05 --validation-size 238 --patience 1 --no-check --output"
    done = subprocess.run(
        [sys.executable, "-m", "tarmac", *command.split(), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "of 40: val_accuracy has not risen for 1 epoch" in done.stdout


def after(epoch: int, why: str = "a search has seen enough"):
    """Return a hook that ends a training after an epoch."""
    return lambda row: why if row["epoch"] == epoch else None


@pytest.mark.parametrize("strategy", ["single", "towers"])
def test_a_caller_may_end_a_training_after_any_epoch_and_the_run_says_why(tmp_path, strategy):
    devices = "cpu:2" if strategy == "towers" else "cpu"
    seen = []

    def stop(row):
        seen.append(row)
        return after(2)(row)

    options = {"strategy": strategy, "devices": devices, "epochs": 4, "validation_size": 100}
    run = tarmac.train("digits-mlp", output=tmp_path, stop=stop, **options)
    assert run.record.status == "completed"
    assert run.record.stopped_early == "a search has seen enough"
    assert seen == run.history
    assert [row["epoch"] for row in run.history] == [1, 2]
    assert run.metrics["val_loss"] == run.history[-1]["val_loss"]
    assert max(path.name for path in run.checkpoints.iterdir()).startswith("epoch-00002")
    assert weights(run)


def test_a_hook_that_speaks_after_the_last_epoch_has_stopped_nothing(tmp_path):
    run = tarmac.train("digits-mlp", epochs=2, output=tmp_path, stop=after(2))
    assert run.record.status == "completed"
    assert run.record.stopped_early is None


def test_a_resumed_training_asks_its_hook_too(tmp_path):
    class Stop(Silent):
        def stepped(self, epoch, step, score):
            if (epoch, step) == (2, 3):
                os.kill(os.getpid(), signal.SIGTERM)

    stopped = tarmac.train("digits-mlp", epochs=5, output=tmp_path, reporter=Stop(), stop=after(3))
    assert stopped.record.status == "interrupted"
    resumed = tarmac.resume(stopped.path, stop=after(3))
    assert resumed.record.status == "completed"
    assert len(resumed.history) == 3


def test_patience_is_the_reason_that_a_run_keeps(tmp_path):
    run = tarmac.train("digits-mlp", output=tmp_path, patience=1, **JUMPY)
    assert run.record.stopped_early == "val_accuracy has not risen for 1 epoch"


def test_a_hook_is_refused_where_epochs_end_in_other_processes(tmp_path):
    with pytest.raises(RequestError, match="stop cannot be used"):
        tarmac.train("digits-mlp", devices="cpu:2", output=tmp_path / "runs", stop=after(1))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("devices", ["cpu", "cpu:2"])
def test_a_test_set_that_is_not_to_be_scored_is_not(tmp_path, devices):
    options = {"epochs": 2, "validation_size": 100, "score_test": False, "devices": devices}
    run = tarmac.train("digits-mlp", output=tmp_path, **options)
    assert run.record.status == "completed"
    assert run.metrics.keys() == {
        "setup_s",
        "train_accuracy",
        "train_loss",
        "train_seconds",
        "val_accuracy",
        "val_loss",
    }
    assert run.record.expectation["met"] is None
    assert run.record.configuration["score_test"] is False


def test_a_resumed_run_still_leaves_its_test_set_alone_and_the_command_says_so(tmp_path):
    class Stop(Silent):
        def stepped(self, epoch, step, score):
            if (epoch, step) == (2, 3):
                os.kill(os.getpid(), signal.SIGTERM)

    options = {"epochs": 2, "score_test": False, "device": "cpu"}
    stopped = tarmac.train("digits-mlp", output=tmp_path, reporter=Stop(), **options)
    done = subprocess.run(
        [sys.executable, "-m", "tarmac", "train", "--no-check", "--resume", str(stopped.path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "the test set was not scored" in done.stdout
    assert "test_accuracy" not in runs.Run.open(stopped.path).metrics


def test_the_largest_seed_trains(tmp_path):
    run = tarmac.train("digits-mlp", epochs=2, seed=2**44, output=tmp_path)
    assert run.record.status == "completed"


def test_any_train_size_up_to_the_datas_will_do(tmp_path):
    for size in (1, 33, 1438):
        run = tarmac.train("digits-mlp", epochs=1, train_size=size, output=tmp_path)
        assert run.record.configuration["train_size"] == size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_size": 1439}, "train_size is 1439, but digits has 1438 samples"),
        ({"train_size": 0}, "train_size is 0"),
        ({"train_size": 1400, "validation_size": 100}, "100 more are held out"),
        ({"validation_size": 2000}, "2000, which leaves none of the 1438 samples of digits"),
        ({"epochs": 0}, "epochs is 0, expected at least 1"),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"learning_rate": 0}, "learning_rate is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**44 + 1}, "seed is 17592186044417, expected at most 17592186044416"),
        ({"patience": 0}, "patience is 0, expected at least 1"),
        ({"patience": 3}, "patience is 3, but there is no validation to watch"),
        ({"devices": "tpu"}, "devices is 'tpu', expected auto, all"),
        ({"precision": "fp8"}, "precision is 'fp8'"),
        ({"compile": "maybe"}, "compile is 'maybe'"),
        ({"fused": "maybe"}, "fused is 'maybe', expected auto, on or off"),
        ({"fused": "on", "devices": "cpu"}, "the fused kernels cannot train this: they are for G"),
        ({"settings": {"hiden": 3}}, "did you mean 'hidden'"),
        ({"settings": {"hidden": "many"}}, "hidden is 'many', expected a whole number"),
        ({"settings": {"hidden": -3}}, "hidden=-3"),
        ({"settings": {"hidden": 0}}, "hidden=0: 1.weight has no elements, its shape is 0 x 64"),
        ({"settings": {"dropout": 1.5}}, "dropout=1.5"),
        ({"settings": {"dataset": "mnits"}}, "did you mean 'mnist'"),
        ({"settings": {"dataset": "cifar10", "hidden": 8}}, "cifar10"),
    ],
)
def test_a_request_that_cannot_be_is_refused_and_leaves_nothing(
    tmp_path, options, message, monkeypatch
):
    monkeypatch.setenv("TARMAC_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("tarmac.data.acquire._urls", lambda source, name: [])
    with pytest.raises(TarmacError, match=message):
        tarmac.train("digits-mlp", output=tmp_path / "runs", **options)
    assert not (tmp_path / "runs").exists()


def test_an_unknown_option_is_a_type_error_as_everywhere_in_python(tmp_path):
    with pytest.raises(TypeError, match="learning_rte"):
        tarmac.train("digits-mlp", learning_rte=1, output=tmp_path)


def test_a_training_that_diverges_fails_and_says_so(tmp_path):
    with pytest.raises(TarmacError, match="diverged") as caught:
        tarmac.train("digits-mlp", learning_rate=1e30, epochs=3, output=tmp_path)
    assert "--lr" in caught.value.hint
    (run,), _ = runs.list_runs(tmp_path)
    assert run.record.status == "failed"
    assert "diverged" in run.record.error


def test_a_directory_that_cannot_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RequestError, match="runs cannot be made in"):
        tarmac.train("digits-mlp", epochs=1, output=tmp_path / "file")


def custom(**changes) -> Workload:
    fields = {
        "name": "mine",
        "summary": "",
        "dataset": "digits",
        "model": lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)),
        "recipe": Recipe(
            optimizer=Adam(learning_rate=1e-2, beta1=0.9, beta2=0.999, eps=1e-8),
            batch_size=64,
            epochs=2,
            preprocess=Scale(factor=1 / 16),
        ),
    }
    return Workload(**(fields | changes))


def test_a_workload_can_be_a_value_with_data_of_its_own(tmp_path):
    rng = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 255, (100, 3), generator=rng, dtype=torch.uint8).numpy()
    split = data.Split(inputs, (inputs[:, 0] > 127).astype("int64"))
    mine = custom(
        dataset=lambda: data.Dataset(name="own", train=split, test=split, num_classes=2),
        model=lambda: torch.nn.Linear(3, 2),
    )
    run = tarmac.train(mine, output=tmp_path)
    assert run.record.dataset["name"] == "own"
    assert run.record.expectation is None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: torch.nn.Linear(64, 10), r"refuses a batch of shape \[2, 8, 8\]"),
        (
            lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 9)),
            r"returns shape \[2, 9\] for 2 samples, expected logits \[2, 10\]",
        ),
    ],
)
def test_a_model_that_does_not_fit_its_data_is_refused(tmp_path, model, message):
    with pytest.raises(RequestError, match=message):
        tarmac.train(custom(model=model), output=tmp_path)


class InParts(torch.nn.Sequential):
    """Returns logits among other things."""

    def __init__(self, kind):
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 10))
        self.kind = kind

    def forward(self, inputs):
        hidden, logits = inputs.float(), super().forward(inputs)
        return (
            {"hidden": hidden, "out": logits} if self.kind is dict else self.kind([logits, hidden])
        )


@pytest.mark.parametrize(
    ("kind", "part"), [(dict, "output['out']"), (tuple, "output[0]"), (list, "output[0]")]
)
def test_a_model_that_returns_logits_in_parts_is_told_which_part_they_are(tmp_path, kind, part):
    with pytest.raises(RequestError, match=f"returns a {kind.__name__} for 2 samples") as caught:
        tarmac.train(custom(model=lambda: InParts(kind)), output=tmp_path)
    assert caught.value.hint == f"Return them alone: return {part}"


def test_a_model_too_large_for_memory_is_refused(tmp_path):
    mine = custom(
        model=lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10**12))
    )
    with pytest.raises(TarmacError, match="memory"):
        tarmac.train(mine, output=tmp_path)


@pytest.mark.parametrize(
    ("device_type", "free", "fits"),
    [("cpu", 1600, True), ("cpu", 1599, False), ("cuda", 15000, False), ("cuda", 30000, True)],
)
def test_data_and_weights_that_exceed_the_memory_are_refused(device_type, free, fits):
    device = dataclasses.replace(find_devices("cpu")[0], type=device_type, available_bytes=free)
    split = data.Split(np.zeros((1000, 8), np.uint8), np.zeros(1000, np.int64))
    dataset = data.Dataset(name="own", train=split, test=split, num_classes=1)
    if fits:
        check_memory(device, dataset, 100, find_strategy("single"))
    else:
        with pytest.raises(RequestError, match="GiB of memory free"):
            check_memory(device, dataset, 100, find_strategy("single"))


STOPPED = """
import sys, os, signal, tarmac
from tarmac.training import Silent

class Stop(Silent):
    def stepped(self, epoch, step, score):
        if (epoch, step) == (3, 7):
            os.kill(os.getpid(), getattr(signal, sys.argv[2]))

import torch; torch.set_num_threads(1)
run = tarmac.train(sys.argv[4], epochs=5, output=sys.argv[1], reporter=Stop(), device="cpu",
                   precision=sys.argv[3])
print(run.record.status)
"""


CONVOLUTIONAL = """
import dataclasses
from torch import nn
from tarmac.workloads import SGD
from tarmac.workloads.digits_mlp import workload as known

def model():
    return nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.Conv2d(8, 8, 3), nn.Dropout(0.1), nn.Flatten(), nn.Linear(128, 10))

workload = dataclasses.replace(known, name="conv", model=model, recipe=dataclasses.replace(
    known.recipe, optimizer=SGD(learning_rate=0.05, momentum=0.9, nesterov=True),
    weight_decay={"*.weight": 1e-3}))
"""


@pytest.mark.parametrize("workload", ["digits-mlp", "conv.py:workload"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("sent", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_stopped_run_resumes_to_the_same_bits(tmp_path, sent, precision, workload, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conv.py").write_text(CONVOLUTIONAL)
    process = subprocess.run(
        [sys.executable, "-c", STOPPED, str(tmp_path / "stopped"), sent, precision, workload],
        capture_output=True,
        text=True,
        check=False,
    )
    if sent == "SIGKILL":
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.stdout.strip() == "interrupted", process.stderr
    stopped = runs.resolve("latest", tmp_path / "stopped")
    assert stopped.status == "interrupted"
    resumed = tarmac.resume(stopped.path)
    whole = tarmac.train(
        workload, epochs=5, output=tmp_path / "whole", device="cpu", precision=precision
    )
    assert_same_weights(resumed, whole)
    keys = ("epoch", "loss", "accuracy")
    assert [[row[k] for k in keys] for row in resumed.history] == [
        [row[k] for k in keys] for row in whole.history
    ]
    assert resumed.metrics["test_accuracy"] == whole.metrics["test_accuracy"]
    assert len(resumed.record.sessions) == 2


def interrupted(tmp_path: Path) -> runs.Run:
    class Stop(Silent):
        def stepped(self, epoch, step, score):
            if (epoch, step) == (2, 5):
                os.kill(os.getpid(), signal.SIGTERM)

    return tarmac.train("digits-mlp", epochs=3, output=tmp_path, reporter=Stop())


def test_a_run_has_the_commit_of_the_directory_that_its_workload_is_in(tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    (own / "conv.py").write_text(CONVOLUTIONAL)
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    for words in (["init", "-b", "trunk"], ["add", "."], ["commit", "-m", "first"]):
        subprocess.run(["git", *identity, *words], cwd=own, check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    asked = {"steps": 1, "train_size": 64, "device": "cpu", "output": tmp_path / "runs"}
    git = tarmac.train("own/conv.py:workload", **asked).record.git
    assert git is not None
    assert git.branch == "trunk"
    assert tarmac.train("digits-mlp", **asked).record.git is None


def test_a_completed_run_cannot_be_resumed(tmp_path):
    run = tarmac.train("digits-mlp", epochs=1, output=tmp_path)
    with pytest.raises(RequestError, match="is completed, there is nothing to resume"):
        tarmac.resume(run.path)


def test_a_run_cannot_be_resumed_as_another_workload(tmp_path):
    run = interrupted(tmp_path)
    with pytest.raises(RequestError, match="is of digits-mlp, not of mnist-mlp"):
        tarmac.resume(run.path, workload="mnist-mlp")


def test_another_workloads_checkpoint_is_refused(tmp_path):
    run = interrupted(tmp_path / "mine")
    other = tarmac.train(custom(), output=tmp_path / "other")
    for old in run.checkpoints.iterdir():
        old.unlink()
    checkpoint = max(other.checkpoints.iterdir())
    shutil.copy(checkpoint, run.checkpoints)
    with pytest.raises(RequestError, match="is of mine, not of digits-mlp"):
        tarmac.resume(run.path)


def test_a_damaged_checkpoint_is_named(tmp_path):
    run = interrupted(tmp_path)
    newest = max(run.checkpoints.iterdir())
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.raises(TarmacError, match=f"{newest.name} is damaged"):
        tarmac.resume(run.path)
    newest.unlink()
    assert tarmac.resume(run.path).record.status == "completed"


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    run = tarmac.train("digits-mlp", epochs=5, output=tmp_path)
    names = sorted(path.name for path in run.checkpoints.iterdir())
    assert names == ["epoch-00004-step-0000000.safetensors", "epoch-00005-step-0000000.safetensors"]


def test_a_full_disk_fails_the_run_and_keeps_the_last_checkpoint(small_disk):
    disk = small_disk("700k")
    with pytest.raises(TarmacError, match="no space left to write"):
        tarmac.train("digits-mlp", output=disk)
    (run,), broken = runs.list_runs(disk)
    assert not broken
    assert list(run.checkpoints.glob("epoch-*.safetensors"))
    assert not list(run.checkpoints.glob(".*"))
    small_disk("8m")
    assert tarmac.resume(run.path).record.status == "completed"


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_graphed_gpu_training_reaches_what_is_expected(tmp_path, precision):
    run = tarmac.train("digits-mlp", device="cuda", precision=precision, output=tmp_path)
    assert run.record.expectation["met"], run.record.expectation["text"]


@pytest.mark.gpu
def test_a_model_that_cannot_be_recorded_trains_all_the_same(tmp_path):
    class Reads(torch.nn.Linear):
        def forward(self, inputs):
            assert inputs.sum().item() >= 0
            return super().forward(inputs)

    # Its draws must go on as well, which PyTorch leaves in the middle of recording.
    mine = custom(
        model=lambda: torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Dropout(0.1), Reads(64, 10), torch.nn.Dropout(0.1)
        )
    )
    assert tarmac.train(mine, device="cuda", output=tmp_path).record.status == "completed"


@pytest.mark.gpu
def test_a_stopped_gpu_run_resumes_to_the_same_score(tmp_path):
    class Stop(Silent):
        def stepped(self, epoch, step, score):
            if (epoch, step) == (2, 7):
                os.kill(os.getpid(), signal.SIGTERM)

    options = {"epochs": 4, "device": "cuda", "deterministic": True}
    stopped = tarmac.train("digits-mlp", output=tmp_path / "a", reporter=Stop(), **options)
    resumed = tarmac.resume(stopped.path)
    whole = tarmac.train("digits-mlp", output=tmp_path / "b", **options)
    assert resumed.metrics["test_loss"] == pytest.approx(whole.metrics["test_loss"], rel=1e-3)
