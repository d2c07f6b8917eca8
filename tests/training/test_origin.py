"""Trainings that begin from another's weights, or go on from its checkpoint for more epochs."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from safetensors.torch import load_file, save_file

import tarmac
from tarmac import RequestError, TarmacError
from tarmac.runs import Run
from tarmac.training.initial import INITIAL, fit_weights, read_weights
from tarmac.workloads import Constant, find_workload


@pytest.fixture(scope="module")
def constant():
    """Return the digits' workload with a rate that does not depend on the number of epochs."""
    workload = find_workload("digits-mlp")
    return dataclasses.replace(
        workload, recipe=dataclasses.replace(workload.recipe, schedule=Constant())
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Run:
    return tarmac.train(
        "digits-mlp", epochs=1, train_size=256, output=tmp_path_factory.mktemp("runs"), device="cpu"
    )


def test_more_epochs_are_those_of_a_training_that_was_asked_for_all(tmp_path, constant):
    options = {"train_size": 256, "validation_size": 64, "device": "cpu", "output": tmp_path}
    short = tarmac.train(constant, epochs=2, **options)
    further = tarmac.extend(short.path, epochs=4, workload=constant, output=tmp_path)
    whole = tarmac.train(constant, epochs=4, **options)
    assert further.path != short.path
    assert [row["loss"] for row in further.history] == [row["loss"] for row in whole.history]
    theirs, ours = load_file(whole.model), load_file(further.model)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert further.record.configuration["from_checkpoint"] == str(short.path.resolve())
    assert further.record.configuration["epochs"] == 4
    assert short.record.configuration["epochs"] == 2
    assert len(short.history) == 2


def test_a_schedule_is_that_of_all_epochs(trained, tmp_path):
    further = tarmac.extend(trained.path, epochs=4, output=tmp_path)
    whole = tarmac.train(
        "digits-mlp", epochs=4, train_size=256, output=tmp_path / "whole", device="cpu"
    )
    rates = [[row["learning_rate"] for row in run.history] for run in (further, whole)]
    assert rates[0][1:] == rates[1][1:]
    assert rates[0][0] == trained.history[0]["learning_rate"] != rates[1][0]


def test_what_cannot_go_on_is_refused_before_a_run_is_made(trained, tmp_path):
    with pytest.raises(RequestError, match=r"epochs is 1, but run .* has done 1"):
        tarmac.extend(trained.path, epochs=1, output=tmp_path)
    patient = tarmac.train(
        "digits-mlp",
        epochs=9,
        train_size=256,
        validation_size=64,
        validation_split="last",
        patience=1,
        learning_rate=10.0,
        output=tmp_path / "patient",
        device="cpu",
    )
    assert patient.record.stopped_early
    with pytest.raises(RequestError, match="stopped by its patience"):
        tarmac.extend(patient.path, epochs=20, output=tmp_path)
    assert [*tmp_path.glob("*/run.json")] == []


def test_a_run_without_the_checkpoint_that_it_goes_on_from_does_not_begin_anew(trained, tmp_path):
    further = tarmac.extend(trained.path, epochs=2, output=tmp_path)
    for checkpoint in further.checkpoints.iterdir():
        checkpoint.unlink()
    further.update(status="interrupted")
    with pytest.raises(TarmacError, match="before it had copied the checkpoint"):
        tarmac.resume(further.path)


@pytest.mark.parametrize("kind", ["run", "checkpoint", "safetensors", "pt", "nested"])
def test_a_training_begins_from_weights(trained, tmp_path, kind):
    weights = load_file(trained.model)
    source = trained.path
    if kind == "checkpoint":
        source = max(trained.checkpoints.iterdir())
    elif kind == "safetensors":
        source = tmp_path / "half.safetensors"
        save_file({name: value.double() for name, value in weights.items()}, source)
    elif kind in ("pt", "nested"):
        source = tmp_path / "weights.pt"
        wrapped = {f"module.{name}": value for name, value in weights.items()}
        torch.save({"state_dict": wrapped, "epoch": 1} if kind == "nested" else weights, source)
    run = tarmac.train(
        "digits-mlp",
        epochs=1,
        train_size=1,
        learning_rate=1e-30,
        init_from=str(source),
        output=tmp_path,
        device="cpu",
    )
    ours = load_file(run.model)
    assert all(torch.allclose(ours[name], weights[name], 0, 1e-20) for name in weights)
    assert run.metrics["test_accuracy"] == trained.metrics["test_accuracy"]
    assert run.record.configuration["init_drawn"] == []


def test_a_run_needs_the_source_of_its_weights_only_once(trained, tmp_path):
    source = tmp_path / "weights.safetensors"
    source.write_bytes(trained.model.read_bytes())
    run = tarmac.train(
        "digits-mlp", epochs=1, train_size=64, init_from=str(source), output=tmp_path, device="cpu"
    )
    source.unlink()
    for checkpoint in run.checkpoints.iterdir():
        checkpoint.unlink()
    before = load_file(run.model)
    run.update(status="interrupted")
    after = load_file(tarmac.resume(run.path).model)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert run.path.joinpath(INITIAL).is_file()


def test_names_and_shapes_that_do_not_fit_are_listed(trained, tmp_path):
    with pytest.raises(RequestError, match="do not fit the model: 5 of 6 names differ") as caught:
        tarmac.train(
            "digits-mlp", init_from=str(trained.path), output=tmp_path, settings={"hidden": 8}
        )
    assert "7.weight is [10, 128] there and [10, 8] here" in caught.value.hint
    assert "--init-partial" in caught.value.hint
    assert not [*tmp_path.iterdir()]


def test_partial_weights_leave_the_others_as_they_are_drawn(tmp_path):
    ours = {"a": torch.ones(2), "b": torch.ones(3), "count": torch.ones((), dtype=torch.int64)}
    theirs = {"a": torch.full((2,), 5, dtype=torch.float16), "c": torch.ones(1)}
    found = fit_weights(tmp_path / "x.pt", theirs, ours, partial=True)
    assert found.missing == ("b", "count")
    assert found.weights["a"].tolist() == [5.0, 5.0]
    assert found.weights["a"].dtype == torch.float32
    with pytest.raises(RequestError, match="no name is in both"):
        fit_weights(tmp_path / "x.pt", {"c": torch.ones(1)}, ours, partial=True)


def test_nothing_but_tensors_is_unpickled(tmp_path):
    path = tmp_path / "model.pt"
    torch.save(torch.nn.Linear(2, 2), path)
    with pytest.raises(RequestError, match="hold objects other than tensors"):
        read_weights(path)


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
# PyTorch's reader raises a KeyError of the second, and a TypeError or others of more.
@pytest.mark.parametrize("content", [b"no weights at all", b"hello", b"\x80\x02}q\x00h\x05."])
def test_a_damaged_file_is_named(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TarmacError, match=r"w\.(pt|safetensors)"):
        read_weights(path)
    with pytest.raises(RequestError, match="there is no such file"):
        read_weights(tmp_path / "absent.pt")
