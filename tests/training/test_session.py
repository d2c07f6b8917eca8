"""What a session does beside its epochs: checkpoints in a thread, errors with what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import tarmac
from tarmac import TarmacError
from tarmac.files import StorageError
from tarmac.runs import Run
from tarmac.training.engine.state import TrainingState
from tarmac.training.session.checkpoint import newest_checkpoint, read_checkpoint
from tarmac.training.session.checkpoint_writer import CheckpointWriter, writing_checkpoints


def state(epoch: int, value: float) -> TrainingState:
    return TrainingState(
        workload="w",
        epoch=epoch,
        step=0,
        seconds=1.0,
        model={"weight": torch.full((2, 3), value)},
        optimizer={"0.step": torch.tensor(value)},
        random={"cpu": torch.get_rng_state()},
        totals=torch.tensor([value, value], dtype=torch.float64),
    )


@pytest.fixture
def unwritable(tmp_path) -> Path:
    """Return a directory that cannot be made, also by root."""
    (tmp_path / "file").write_text("in the way")
    return tmp_path / "file" / "checkpoints"


def test_a_training_goes_on_while_its_checkpoint_is_written(tmp_path):
    with ThreadPoolExecutor(1) as thread:
        may_write = threading.Event()
        thread.submit(may_write.wait)
        writer = CheckpointWriter(tmp_path, thread)
        current = state(1, 0.5)
        writer.write(current)
        assert newest_checkpoint(tmp_path) is None
        for tensor in (*current.model.values(), *current.optimizer.values(), current.totals):
            tensor.fill_(7.0)
        may_write.set()
        writer.wait()
    written = read_checkpoint(tmp_path / "epoch-00001-step-0000000.safetensors", "w")
    assert torch.equal(written.model["weight"], torch.full((2, 3), 0.5))
    assert torch.equal(written.optimizer["0.step"], torch.tensor(0.5))
    assert written.totals.tolist() == [0.5, 0.5]


def test_a_checkpoint_waits_for_the_one_before(tmp_path):
    with writing_checkpoints(tmp_path) as writer:
        writer.write(state(1, 0.5))
        writer.write(state(2, 1.5))
        assert (tmp_path / "epoch-00001-step-0000000.safetensors").exists()
    assert newest_checkpoint(tmp_path) == tmp_path / "epoch-00002-step-0000000.safetensors"


OPENMP_THREADS = """
import os, sys
from pathlib import Path
import torch
from tarmac.training.engine.state import TrainingState
from tarmac.training.session.checkpoint_writer import writing_checkpoints

weight = torch.ones(1024, 1024)
state = TrainingState(
    workload="w", epoch=1, step=0, seconds=1.0, model={"weight": weight}, optimizer={},
    random={"cpu": torch.get_rng_state()}, totals=torch.zeros(2, dtype=torch.float64),
)
weight.clone()  # by all of OpenMP's threads
before = len(os.listdir("/proc/self/task"))
with writing_checkpoints(Path(sys.argv[1])) as writer:
    writer.write(state)
    writer.wait()
    print(len(os.listdir("/proc/self/task")) - before)
"""


def test_what_writes_a_checkpoint_makes_openmp_start_no_more_threads(tmp_path):
    # More than cores, and every operation of the training would wait in its sleep.
    done = subprocess.run(
        [sys.executable, "-c", OPENMP_THREADS, tmp_path],
        env={**os.environ, "OMP_NUM_THREADS": "4"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1"


def write(directory: Path, *states: TrainingState) -> None:
    with writing_checkpoints(directory) as writer:
        for one in states:
            writer.write(one)


def test_a_checkpoint_that_cannot_be_written_is_an_error_of_the_next_one(unwritable):
    with ThreadPoolExecutor(1) as thread:
        writer = CheckpointWriter(unwritable, thread)
        writer.write(state(1, 0.5))
        with pytest.raises(StorageError, match="cannot write"):
            writer.write(state(2, 1.5))
        writer.wait()


def test_a_last_checkpoint_that_cannot_be_written_is_an_error(unwritable):
    with pytest.raises(StorageError, match="cannot write"):
        write(unwritable, state(1, 0.5))


def test_what_stops_a_training_is_told_before_a_checkpoint_that_failed(unwritable):
    def diverge() -> None:
        with writing_checkpoints(unwritable) as writer:
            writer.write(state(1, 0.5))
            raise TarmacError("the training has diverged")

    with pytest.raises(TarmacError, match="diverged"):
        diverge()


def test_a_training_whose_checkpoints_cannot_be_written_fails(tmp_path):
    def take_the_directory_away(_row) -> None:
        (path,) = tmp_path.iterdir()
        (path / "checkpoints").rmdir()
        (path / "checkpoints").write_text("in the way")

    with pytest.raises(StorageError, match="cannot write"):
        tarmac.train(
            "digits-mlp", epochs=1, device="cpu", output=tmp_path, stop=take_the_directory_away
        )
    (path,) = tmp_path.iterdir()
    assert Run.open(path).record.status == "failed"


def test_a_completed_run_has_its_last_checkpoint(tmp_path):
    run = tarmac.train("digits-mlp", epochs=3, device="cpu", output=tmp_path)
    assert newest_checkpoint(run.checkpoints).name.startswith("epoch-00003")


def test_an_error_of_cuda_says_what_happened_and_what_to_do(tmp_path):
    def fail(_row) -> None:
        raise RuntimeError(
            "CUDA error: no kernel image is available for execution on the device\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
        )

    with pytest.raises(TarmacError) as caught:
        tarmac.train("digits-mlp", epochs=1, device="cpu", output=tmp_path, stop=fail)
    assert str(caught.value) == (
        "cpu: CUDA error: no kernel image is available for execution on the device\n"
        "Find its cause: tarmac check"
    )


def test_a_gpu_without_room_for_a_context_is_out_of_memory(tmp_path):
    def fail(_row) -> None:
        raise RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported ...")

    with pytest.raises(TarmacError, match=r"^out of memory on cpu") as caught:
        tarmac.train("digits-mlp", epochs=1, device="cpu", output=tmp_path, stop=fail)
    assert "nvidia-smi" in str(caught.value)


@pytest.mark.gpu
@pytest.mark.usefixtures("mnist")
def test_the_most_memory_that_is_recorded_is_this_trainings_own(tmp_path):
    large = tarmac.train("mnist-mlp", epochs=1, output=tmp_path, train_size=1000)
    small = tarmac.train("digits-mlp", epochs=1, output=tmp_path)
    assert small.history[-1]["memory_bytes"] < large.history[-1]["memory_bytes"]
