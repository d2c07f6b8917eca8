"""Weights and checkpoints say when a bit of them has flipped, and what to do then."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import tarmac
from tarmac import RequestError, TarmacError
from tarmac.inference import evaluate, export, predict
from tarmac.runs import Run
from tarmac.training.initial import read_weights
from tarmac.training.session.checkpoint import epoch_of, read_checkpoint
from tarmac.training.session.record import find_begun
from tarmac.training.tensor_files import open_tensors, write_tensors


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Run:
    return tarmac.train(
        "digits-mlp",
        epochs=2,
        train_size=64,
        validation_size=32,
        output=tmp_path_factory.mktemp("runs"),
        device="cpu",
    )


@pytest.fixture
def run(trained, tmp_path) -> Run:
    return Run.open(shutil.copytree(trained.path, tmp_path / trained.name))


def flip(path, place: int = -100, bit: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= bit
    path.write_bytes(content)


def test_every_flipped_bit_of_a_file_is_seen(tmp_path):
    path = tmp_path / "weights.safetensors"
    write_tensors(path, {"a": torch.arange(3.0), "b": torch.ones(2, 2)}, {"x": "y"})
    content = path.read_bytes()
    taken = []
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            read_weights(path)
        except TarmacError:
            continue
        taken.append(place // 8)
    # Where the name of the checksum itself is damaged nothing else is.
    start = content.index(b'"tarmac_checksum":"')
    assert set(taken) <= set(range(start, start + len(b'"tarmac_checksum":"')))


def test_other_readers_of_safetensors_read_what_is_written(tmp_path):
    path = tmp_path / "weights.safetensors"
    write_tensors(path, {"a": torch.arange(3.0)}, {"x": "y"})
    assert torch.equal(load_file(path)["a"], torch.arange(3.0))
    with safe_open(path, framework="pt") as file:
        assert file.metadata()["x"] == "y"


def test_a_file_without_a_checksum_is_read(tmp_path, run):
    save_file({"a": torch.ones(2)}, tmp_path / "theirs.safetensors")
    assert torch.equal(read_weights(tmp_path / "theirs.safetensors")["a"], torch.ones(2))
    # As checkpoints were until they had one.
    newest = max(run.checkpoints.glob("epoch-*"))
    with open_tensors(newest) as file:
        position = file.metadata()["tarmac"]
    save_file(load_file(newest), newest, metadata={"tarmac": position})
    assert read_checkpoint(newest, "digits-mlp").epoch == epoch_of(newest) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.mkdir(),
        os.mkfifo,
        lambda path: path.symlink_to(path),
        lambda path: path.symlink_to("nothing"),
        lambda path: path.write_bytes(b""),
    ],
    ids=["directory", "pipe", "loop", "broken link", "empty"],
)
def test_weights_in_whose_place_something_else_is_are_not_passed_over(run, damage):
    run.model.unlink()
    damage(run.model)
    with pytest.raises(TarmacError, match=r"model\.safetensors"):
        evaluate(run.path)


def test_a_file_far_larger_than_its_header_says_is_not_read(run):
    os.truncate(run.model, 2**40)
    with pytest.raises(TarmacError, match=r"model\.safetensors"):
        evaluate(run.path)


def test_a_training_does_not_go_on_from_a_damaged_checkpoint_and_says_how_to(run):
    before, newest = sorted(run.checkpoints.glob("epoch-*"))
    flip(newest)
    run.model.unlink()
    run.update(status="interrupted")
    with pytest.raises(TarmacError, match=rf"{newest.name} is damaged: its checksum is") as raised:
        tarmac.resume(run.path)
    assert raised.value.hint == (
        f"To resume from the one before it, {before.name}:\n"
        f"rm {newest}\ntarmac train --resume {run.path}"
    )
    before.unlink()
    with pytest.raises(TarmacError, match="To resume from the beginning"):
        tarmac.extend(run.path, epochs=5, output=run.path.parent / "new")
    newest.unlink()
    assert tarmac.resume(run.path).record.status == "completed"


def test_a_later_attempt_of_a_task_goes_on_from_the_checkpoint_before_a_damaged_one(
    run, monkeypatch
):
    monkeypatch.setenv("TARMAC_LAUNCH", "the-task")
    newest = max(run.checkpoints.glob("epoch-*"))
    flip(newest)
    run.model.unlink()
    run.update(status="interrupted", launch="the-task")
    with pytest.warns(
        UserWarning, match=f"{newest.name} is damaged.* kept as {newest.name}.damaged"
    ):
        again = tarmac.train(
            "digits-mlp", epochs=2, train_size=64, validation_size=32, output=run.path.parent
        )
    assert (again.path, again.record.status) == (run.path, "completed")
    assert [row["epoch"] for row in again.history] == [1, 2]
    assert newest.with_name(f"{newest.name}.damaged").is_file()


def test_whoever_looks_at_a_run_leaves_its_damaged_checkpoints_where_they_are(run, monkeypatch):
    monkeypatch.setenv("TARMAC_LAUNCH", "the-task")
    run.update(status="interrupted", launch="the-task")
    run.model.unlink()
    samples = torch.zeros(1, 8, 8, dtype=torch.uint8).numpy()
    for path in run.checkpoints.glob("epoch-*"):
        flip(path)
    files = sorted(run.path.rglob("*"))
    assert find_begun("the-task", run.path.parent).path == run.path
    for look in (
        lambda: evaluate(run, device="cpu"),
        lambda: predict(run, samples, device="cpu"),
        lambda: export(run, "torch"),
        lambda: tarmac.extend(run.path, epochs=5),
    ):
        with pytest.raises(TarmacError, match="its checksum is"):
            look()
    with run.held(), pytest.raises(RequestError, match="in use by another process"):
        tarmac.train("digits-mlp", epochs=2, output=run.path.parent)
    assert sorted(run.path.rglob("*")) == files


def test_damaged_weights_are_not_scored_asked_or_begun_from(run):
    flip(run.model)
    says = rf"{run.model.name} cannot be read: its checksum is (.|\n)*\nrm {run.model}$"
    samples = torch.zeros(1, 8, 8, dtype=torch.uint8).numpy()
    for look in (
        lambda: evaluate(run, device="cpu"),
        lambda: predict(run, samples, device="cpu"),
        lambda: tarmac.train("digits-mlp", init_from=str(run.path), output=run.path.parent),
    ):
        with pytest.raises(TarmacError, match=says):
            look()
    run.model.unlink()
    assert evaluate(run, device="cpu").weights == max(run.checkpoints.glob("epoch-*"))


def test_a_damaged_best_checkpoint_is_not_scored(run):
    best = run.checkpoints / "best.safetensors"
    flip(best)
    with pytest.raises(TarmacError, match="checksum") as raised:
        evaluate(run, device="cpu", checkpoint="best")
    assert raised.value.hint == "The final weights are in another file: --checkpoint last"


@pytest.mark.parametrize("odd", ["[" * 100_000, "{}", '{"epoch": "1"}', "\ud800"])
def test_a_checkpoint_with_a_malformed_position_is_damaged(run, odd):
    newest = max(run.checkpoints.glob("epoch-*"))
    text = odd if odd != "\ud800" else json.dumps({"epoch": odd})
    write_tensors(newest, load_file(newest), {"tarmac": text})
    with pytest.raises(TarmacError, match="is damaged"):
        read_checkpoint(newest, "digits-mlp")
