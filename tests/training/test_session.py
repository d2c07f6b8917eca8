"""What a session does beside its epochs: checkpoints in a thread, errors with what to do."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import tarmac
from tarmac import RequestError, TarmacError
from tarmac.files import StorageError
from tarmac.runs import Run
from tarmac.training import Silent
from tarmac.training.engine.state import TrainingState
from tarmac.training.session.checkpoint import newest_checkpoint, read_checkpoint, remove_older
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
        "Find the cause: tarmac check"
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


class _Steps(Silent):
    """Asks to stop in a step, and keeps count of the epochs that ended."""

    def __init__(self, epoch: int, step: int) -> None:
        self._last = (epoch, step)
        self.is_reached = threading.Event()
        self.num_epochs = 0

    def stepped(self, epoch, step, score):
        if (epoch, step) >= self._last:
            self.is_reached.set()

    def epoch_done(self, row):
        self.num_epochs += 1


def in_thread(function):
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()


def test_a_program_stops_a_training_of_another_thread_after_any_step_and_it_goes_on(tmp_path):
    asked = {"epochs": 3, "batch_size": 100, "device": "cpu", "output": tmp_path}
    whole = tarmac.train("digits-mlp", **asked)
    steps = _Steps(2, 5)
    stopped = in_thread(
        lambda: tarmac.train(
            "digits-mlp", reporter=steps, interrupted=steps.is_reached.is_set, **asked
        )
    )
    assert (stopped.record.status, steps.num_epochs) == ("interrupted", 1)
    newest = newest_checkpoint(stopped.checkpoints)
    assert newest is not None
    assert newest.name == "epoch-00001-step-0000005.safetensors"
    resumed = in_thread(lambda: tarmac.resume(stopped.path, interrupted=lambda: False))
    assert resumed.record.status == "completed"
    assert resumed.model.read_bytes() == whole.model.read_bytes()


def test_a_program_stops_workers_too(tmp_path):
    steps = _Steps(1, 1)
    run = in_thread(
        lambda: tarmac.train(
            "digits-mlp",
            epochs=2000,
            device="cpu:2",
            strategy="ddp",
            output=tmp_path,
            reporter=steps,
            interrupted=steps.is_reached.is_set,
        )
    )
    assert run.record.status == "interrupted"
    assert newest_checkpoint(run.checkpoints) is not None


def test_a_run_has_the_name_that_is_asked_for_once(tmp_path):
    asked = {"epochs": 1, "device": "cpu", "output": tmp_path, "name": "mine"}
    assert tarmac.train("digits-mlp", **asked).path == tmp_path / "mine"
    with pytest.raises(TarmacError, match=f"there is a run mine in {tmp_path} already"):
        tarmac.train("digits-mlp", **asked)


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "a\0b"])
def test_a_name_that_is_no_directory_of_its_own_is_refused(tmp_path, name):
    with pytest.raises(RequestError, match=r"name is .*, expected a directory's name"):
        tarmac.train("digits-mlp", output=tmp_path / "runs", name=name, epochs=1)
    assert not (tmp_path / "x").exists()


def test_a_name_whose_directory_was_left_half_made_is_free(tmp_path):
    (tmp_path / "mine" / "checkpoints").mkdir(parents=True)
    run = tarmac.train("digits-mlp", epochs=1, device="cpu", output=tmp_path, name="mine")
    assert run.record.status == "completed"


def test_a_run_that_goes_on_is_judged_by_the_recipe_that_it_began_with(tmp_path):
    looks = iter([False] * 3)
    run = tarmac.train(
        "digits-mlp", output=tmp_path, devices="cpu", interrupted=lambda: next(looks, True)
    )
    assert run.status == "interrupted"
    text = tarmac.resume(run.path).record.expectation["text"]
    assert text.startswith("test accuracy 0.9")
    assert "changed" not in text


def test_an_old_checkpoint_that_cannot_be_removed_ends_no_training(tmp_path, monkeypatch):
    for epoch in range(5):
        (tmp_path / f"epoch-{epoch:05d}-step-0000000.safetensors").touch()

    def broken(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", broken)
        remove_older(tmp_path)
    assert len([*tmp_path.iterdir()]) == 5
    remove_older(tmp_path)
    assert len([*tmp_path.iterdir()]) == 2


def interrupted_in(epoch: int, output: Path, **options) -> Run:
    steps = _Steps(epoch, 1)
    chosen = {"epochs": 9, "batch_size": 500, "device": "cpu", "output": output, "reporter": steps}
    run = tarmac.train("digits-mlp", interrupted=steps.is_reached.is_set, **chosen, **options)
    assert run.record.status == "interrupted"
    return run


def test_a_run_without_its_checkpoints_does_not_begin_anew_unsaid(tmp_path):
    run = interrupted_in(5, tmp_path)
    shutil.rmtree(run.checkpoints)
    before = (run.path / "metrics.jsonl").read_bytes()
    with pytest.raises(TarmacError, match="has done 4 epochs, and none of its checkpoints is in "):
        tarmac.resume(run.path)
    assert (run.path / "metrics.jsonl").read_bytes() == before
    assert Run.open(run.path).status == "interrupted"


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(tmp_path):
    run = interrupted_in(3, tmp_path, checkpoint_every=5)
    shutil.rmtree(run.checkpoints)
    assert tarmac.resume(run.path).record.status == "completed"


def test_the_advice_on_a_damaged_line_of_the_history_mends_it(tmp_path):
    run = interrupted_in(4, tmp_path / "it's here")
    path = run.path / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"epoch":2', b'"epoch":3'))
    with pytest.raises(TarmacError, match=r"metrics\.jsonl:2 is damaged: ") as raised:
        tarmac.resume(run.path)
    assert Run.open(run.path).status == "interrupted"
    subprocess.run(["bash", "-c", raised.value.hint.splitlines()[-1]], check=True)
    resumed = tarmac.resume(run.path)
    assert [row["epoch"] for row in resumed.history] == [1, *range(3, 10)]
