"""Shards: what a rank holds, other numbers of ranks, and what is refused."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sharded_workloads
import torch
from safetensors.torch import load_file
from sharded_workloads import CHECKPOINTED, EQUAL, OPTIONS, RESUMED, UNSHARDED

import tarmac
from tarmac.errors import RequestError, TarmacError
from tarmac.inference import evaluate
from tarmac.runs import Run
from tarmac.testing import strategies
from tarmac.testing.faults import failing_once
from tarmac.testing.strategies import assert_close, weights_of
from tarmac.training import resume
from tarmac.training.initial import read_weights
from tarmac.training.shards import ShardReader
from waiting import limit_s

_HERE = Path(__file__).parent
_MLP = f"{strategies.__file__}:mlp_workload"


def workload(name: str) -> str:
    return f"{sharded_workloads.__file__}:{name}"


def run_in(directory: Path) -> Run:
    (path,) = directory.iterdir()
    return Run.open(path)


@pytest.fixture(scope="module")
def by_ranks(tmp_path_factory) -> Path:
    """Do in one start of two ranks all that tests look at; return where it is."""
    output = tmp_path_factory.mktemp("ranks")
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, "-m", *command, _HERE / "sharded_ranks.py", output],
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s(240),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return output


@pytest.mark.parametrize("name", EQUAL)
def test_shards_make_the_same_weights_as_one_device(by_ranks, tmp_path, name):
    one = tarmac.train(workload(name), output=tmp_path, devices="cpu", accumulate=2, **OPTIONS)
    two = run_in(by_ranks / name)
    assert two.record.parallel.strategy == "fsdp"
    assert_close(weights_of(two), weights_of(one), 1e-11, name)


def test_shards_in_fp16_make_the_weights_of_one_device(by_ranks, tmp_path):
    options = OPTIONS | {"precision": "fp16"}
    one = tarmac.train(workload("clipped"), output=tmp_path, devices="cpu", **options)
    two = run_in(by_ranks / "fp16")
    assert two.record.parallel.strategy == "fsdp"
    assert_close(weights_of(two), weights_of(one), 0.01, "fp16")
    assert [row["skipped_steps"] for row in two.history] == [0] * len(one.history)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_gradient_in_fp16_that_is_not_finite_on_one_rank_skips_the_step_on_all(by_ranks, rank):
    skipped = json.loads((by_ranks / f"found-{rank}.json").read_text())["skipped"]
    assert skipped == {"num_skipped": 1, "scale": 32768.0, "are_values_kept": True}


@pytest.mark.parametrize("name", [*RESUMED, "fp16"])
def test_the_same_number_of_ranks_goes_on_with_the_same_bits(by_ranks, name):
    whole, resumed = run_in(by_ranks / name), run_in(by_ranks / f"{name}-resumed")
    assert resumed.record.status == "completed"
    expected = weights_of(whole)
    assert all(torch.equal(value, expected[key]) for key, value in weights_of(resumed).items())


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_holds_half(by_ranks, rank):
    held = json.loads((by_ranks / f"found-{rank}.json").read_text())["bytes"]
    for what, whole in held["single"].items():
        # A first dimension of an odd number is not halved evenly, and scalars are everybody's.
        assert held["fsdp"][what] == pytest.approx(whole / 2, rel=0.02), what


def test_optimizers_update_shards_as_they_update_whole_tensors(by_ranks):
    differences = json.loads((by_ranks / "found-0.json").read_text())["differences"]
    assert {"Adam", "SGD", "RMSprop", "own"} <= {*differences}
    assert differences == {name: pytest.approx(0.0, abs=1e-6) for name in differences}


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_blocks_that_are_computed_again_make_the_same_weights(by_ranks, strategy):
    kept, again = (weights_of(run_in(by_ranks / f"{strategy}-{how}")) for how in ("kept", "again"))
    assert_close(again, kept, 1e-13, f"{CHECKPOINTED} by {strategy}")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("averaged", {}, r"fsdp cannot keep a moving average of weights \(ema\)"),
        ("by_muon", {}, "fsdp cannot train by Muon, which does not update a tensor part by part"),
        ("blocks", {"compile": "on"}, "fsdp cannot compile the model"),
    ],
)
def test_what_shards_cannot_do_is_refused_before_anything_starts(tmp_path, name, options, message):
    with pytest.raises(RequestError, match=message) as raised:
        tarmac.train(
            workload(name),
            output=tmp_path,
            strategy="fsdp",
            devices="cpu:2",
            **{**OPTIONS, **options},
        )
    assert raised.value.hint == "Leave it out, or use --strategy ddp."
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", UNSHARDED)
def test_optimizers_that_look_at_whole_tensors_are_refused(tmp_path, name):
    made = sharded_workloads.of_class(getattr(torch.optim, name))
    if name == "Muon":
        # It trains matrices alone, on any number of devices.
        recipe = dataclasses.replace(
            made.recipe, parameter_groups=sharded_workloads.BIASES_BY_ANOTHER
        )
        made = dataclasses.replace(made, recipe=recipe)
    with pytest.raises(RequestError, match=f"cannot train by torch.optim.{name}"):
        tarmac.train(made, output=tmp_path, strategy="fsdp", devices="cpu:2", **OPTIONS)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    """Return the run of two ranks that failed in its second epoch."""
    output = tmp_path_factory.mktemp("stopped")
    with (
        failing_once(output / "failed-once", 4),
        pytest.raises(TarmacError, match="failed on purpose"),
    ):
        tarmac.train(_MLP, output=output / "runs", strategy="fsdp", devices="cpu:2", **OPTIONS)
    (path,) = (output / "runs").iterdir()
    return path


@pytest.fixture
def run(stopped, tmp_path) -> Run:
    """Return a copy of that run."""
    return Run.open(Path(shutil.copytree(stopped, tmp_path / stopped.name)))


@pytest.mark.parametrize("goes_on", ["cpu:3", "cpu"])
def test_a_checkpoint_goes_on_with_another_number_of_devices(tmp_path, run, goes_on):
    expected = weights_of(tarmac.train(_MLP, output=tmp_path / "one", devices="cpu", **OPTIONS))
    assert run.record.parallel.world_size == 2
    resumed = resume(run.path, devices=goes_on)
    assert resumed.record.parallel.world_size == int(goes_on.partition(":")[2] or 1)
    assert_close(weights_of(resumed), expected, 1e-12, goes_on)


def test_a_checkpoint_is_whole_or_absent(run):
    (checkpoint,) = run.checkpoints.iterdir()
    assert checkpoint.name == "epoch-00001-step-0000000.dcp"
    # What a crash in the midst of writing leaves is not read, and not in the way.
    (run.checkpoints / ".epoch-00002-step-0000000.dcp.part").mkdir()
    (run.checkpoints / ".epoch-00002-step-0000000.dcp.part" / "rest").write_text("")
    resume(run.path)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == [
        "epoch-00001-step-0000000.dcp",
        "epoch-00002-step-0000000.dcp",
    ]


def test_a_damaged_checkpoint_is_named(run):
    (run.checkpoints / "epoch-00001-step-0000000.dcp" / ".metadata").unlink()
    with pytest.raises(TarmacError, match=r"epoch-00001-step-0000000.dcp is damaged") as raised:
        resume(run.path)
    assert "To resume from the beginning:" in str(raised.value.hint)


def test_flipped_bits_of_shards_and_index_are_seen(run, tmp_path):
    checkpoint = run.checkpoints / "epoch-00001-step-0000000.dcp"
    for name in ("__0_0.distcp", "__1_0.distcp", ".metadata"):
        file = checkpoint / name
        content = file.read_bytes()
        file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        for look in (
            lambda: resume(run.path),
            lambda: read_weights(checkpoint),
            lambda: tarmac.extend(run.path, epochs=9, output=tmp_path / "new"),
        ):
            with pytest.raises(TarmacError, match=r"dcp is damaged: .*(checksum|metadata|pickle)"):
                look()
        file.write_bytes(content)
    position = checkpoint / "position.json"
    # As it was until it had checksums.
    fields = json.loads(position.read_text())
    assert sorted(fields.pop("checksums")) == [".metadata", "__0_0.distcp", "__1_0.distcp"]
    position.write_text(json.dumps(fields))
    assert read_weights(checkpoint)


def test_a_shard_that_is_cut_or_missing_is_named_before_a_run_is_made(run, tmp_path):
    checkpoint = run.checkpoints / "epoch-00001-step-0000000.dcp"
    shard = checkpoint / "__1_0.distcp"
    content = shard.read_bytes()
    shard.write_bytes(content[:100])
    with pytest.raises(TarmacError, match=r"damaged: __1_0\.distcp has 100 bytes, expected at"):
        resume(run.path)
    with pytest.raises(TarmacError, match="is damaged"):
        tarmac.train(_MLP, init_from=str(checkpoint), output=tmp_path / "new", **OPTIONS)
    shard.unlink()
    with pytest.raises(TarmacError, match=r"damaged: .*No such file or directory: .*__1_0"):
        tarmac.extend(run.path, epochs=9, output=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    shard.write_bytes(content)
    begun = tarmac.train(_MLP, init_from=f"{checkpoint}/", output=tmp_path / "new", **OPTIONS)
    assert begun.record.configuration["init_from"] == str(checkpoint)


def test_the_best_checkpoint_is_kept_in_shards_and_scored(tmp_path):
    run = tarmac.train(
        _MLP,
        output=tmp_path,
        devices="cpu:2",
        strategy="fsdp",
        validation_size=20,
        train_size=50,
    )
    assert (run.checkpoints / "best.dcp" / "position.json").is_file()
    assert run.record.best is not None
    best = evaluate(run, device="cpu", checkpoint="best")
    assert best.weights.name == "best.dcp"
    if run.record.best.epoch == len(run.history):
        assert best.score == pytest.approx(evaluate(run, device="cpu").score)


def test_weights_in_shards_are_whole_to_others(tmp_path, run):
    (checkpoint,) = run.checkpoints.iterdir()
    found = read_weights(checkpoint)
    after = tarmac.train(
        _MLP, output=tmp_path / "after", init_from=str(run.path), devices="cpu", epochs=1, **OPTIONS
    )
    begun = load_file(after.path / "initial.safetensors")
    assert begun.keys() == found.keys()
    # A model takes weights in its own precision.
    assert all(torch.equal(value, found[name].to(value.dtype)) for name, value in begun.items())
    assert evaluate(run, device="cpu").weights == checkpoint


class Harm:
    """Runs code where it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("harmed",)


def test_an_index_of_a_stranger_runs_no_code(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (checkpoint,) = run.checkpoints.iterdir()
    (checkpoint / ".metadata").write_bytes(pickle.dumps(Harm()))
    for look in (lambda: read_weights(checkpoint), lambda: resume(run.path)):
        with pytest.raises(TarmacError, match=r"is damaged: its index names posix\.mkdir"):
            look()
    assert not (tmp_path / "harmed").exists()


def test_an_index_that_an_earlier_python_wrote_is_read(run, monkeypatch):
    (checkpoint,) = run.checkpoints.iterdir()
    known = ShardReader(checkpoint).read_metadata()
    with monkeypatch.context() as earlier:
        # Before 3.11.4.
        as_name = lambda member, _: (getattr, (type(member), member.name))  # noqa: E731
        earlier.setattr(enum.Enum, "__reduce_ex__", as_name)
        index = pickle.dumps(known)
    assert b"getattr" in index
    (checkpoint / ".metadata").write_bytes(index)
    again = ShardReader(checkpoint).read_metadata()
    assert again.state_dict_metadata == known.state_dict_metadata
    (checkpoint / ".metadata").write_bytes(pickle.dumps(Peek()))
    with pytest.raises(pickle.UnpicklingError, match="asks for join"):
        ShardReader(checkpoint).read_metadata()


class Peek:
    """Takes what is in a class, where it is unpickled."""

    def __reduce__(self):
        return getattr, (torch.Size, "join")
