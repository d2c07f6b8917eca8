"""Checkpoints: complete safetensors files with all that a training needs to resume.

Nothing is unpickled: tensors are read as such, and the position is JSON in the file's header.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from tarmac.distribution import upgrade_hint
from tarmac.errors import RequestError, TarmacError
from tarmac.files import (
    parse_json,
    remove_tree,
    sync_directory,
    temporary_path,
    write_bytes,
)
from tarmac.runs import Run
from tarmac.training.engine.state import TrainingState
from tarmac.training.shard_directories import (
    POSITION_SHAPE,
    SHARDED,
    copy_sharded,
    damage_explained,
    read_position,
)
from tarmac.training.tensor_files import open_tensors, write_tensors

_VERSION = 1

_WHOLE = ".safetensors"

_BEST = "best"

# Suffix of a damaged checkpoint that is set aside.
_DAMAGED = ".damaged"

# One more than needed, in case the disk damages the newest checkpoint.
_NUM_KEPT = 2


def write_checkpoint(directory: Path, checkpoint: TrainingState, *, is_best: bool = False) -> Path:
    """Write a checkpoint, and remove old checkpoints except the newest.

    It computes nothing with PyTorch, as a thread beside a training must not: see
    `CheckpointWriter`.

    Args:
        directory: Directory of the run's checkpoints.
        checkpoint: Training state to write; tensors on the CPU, no two of which share memory.
        is_best: Whether to keep the checkpoint as the best too.

    Raises:
        StorageError: The checkpoint could not be written; earlier checkpoints still exist.
    """
    tensors = {
        f"{part}/{name}": _in_usual_order(value)
        for part in ("model", "optimizer", "random", "feed")
        for name, value in getattr(checkpoint, part).items()
    }
    tensors["totals"] = checkpoint.totals
    header = {
        "version": _VERSION,
        "workload": checkpoint.workload,
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "seconds": checkpoint.seconds,
    }
    path = directory / f"epoch-{checkpoint.epoch:05d}-step-{checkpoint.step:07d}.safetensors"
    write_tensors(path, tensors, {"tarmac": json.dumps(header)})
    if is_best:
        keep_as_best(path)
    remove_older(directory)
    return path


def remove_older(directory: Path) -> None:
    """Remove all checkpoints except the newest; the best checkpoint is separate."""
    for old in _found(directory)[:-_NUM_KEPT]:
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            # A file that cannot be removed does no harm, and the next checkpoint retries.
            with contextlib.suppress(OSError):
                old.unlink()


def _found(directory: Path) -> list[Path]:
    """Return all checkpoints, the oldest first."""
    return sorted(p for p in directory.glob("epoch-*") if p.suffix in (_WHOLE, SHARDED))


def keep_as_best(path: Path) -> None:
    """Keep a checkpoint as the best, and replace the previous best.

    Raises:
        StorageError: The best checkpoint could not be written; the previous one still exists.
    """
    best = path.with_name(_BEST + path.suffix)
    if path.is_dir():
        copy_sharded(path, best)
        return
    link = temporary_path(best.parent)
    try:
        os.link(path, link)
        link.replace(best)
        sync_directory(best.parent)
    except OSError:
        remove_tree(link)
        # Some file systems have no hard links.
        write_bytes(best, path.read_bytes())


def best_checkpoint(directory: Path) -> Path | None:
    """Return the path of the best checkpoint; None if there is none yet."""
    paths = (directory / (_BEST + suffix) for suffix in (_WHOLE, SHARDED))
    return next((path for path in paths if path.exists()), None)


def epoch_of(path: Path) -> int:
    """Return the number of epochs that were completed before a checkpoint.

    Raises:
        TarmacError: The file is damaged.
    """
    if path.suffix == SHARDED:
        return int(read_position(path)["epoch"])
    with _open(path) as (_, header):
        return int(header["epoch"])


@contextlib.contextmanager
def _open(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield a checkpoint's file and header; an error in the context means that it is damaged."""
    with damage_explained(path, SafetensorError), open_tensors(path) as file:
        header = (file.metadata() or {}).get("tarmac")
        if header is None:
            raise ValueError("it was not written as a checkpoint")
        yield file, POSITION_SHAPE.checked(parse_json(header))


def _in_usual_order(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor, by NumPy, which computes only in this thread."""
    if tensor.is_contiguous():
        return tensor
    return torch.from_numpy(np.ascontiguousarray(tensor.numpy()))


def portable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy on the CPU, as safetensors requires."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def newest_checkpoint(directory: Path) -> Path | None:
    """Return the newest checkpoint's path; None if there is none yet."""
    return max(_found(directory), default=None)


def check_progress(run: Run, checkpoint_every: int) -> None:
    """Check that a resumed run still has a checkpoint for the epochs in its history.

    Args:
        run: Stopped run that the training resumes.
        checkpoint_every: Number of epochs between two checkpoints.

    Raises:
        TarmacError: A checkpoint was written but none exists, or a line of the history is damaged.
    """
    history = run.history
    # The history may be ahead of a checkpoint that is still being written. The next one waits.
    if newest_checkpoint(run.checkpoints) is None and len(history) > 2 * checkpoint_every:
        raise TarmacError(
            f"run {run.name} has done {len(history)} epochs, and none of its checkpoints is in "
            f"{run.checkpoints}",
            hint="Restore them, or start a new training: this one would start at epoch 1.",
        )


def set_damaged_aside(directory: Path) -> None:
    """Rename the newest checkpoints that are damaged, for attempts without supervision.

    Each attempt would fail by the same file. So it resumes from the one before, with a warning.
    """
    while (newest := newest_checkpoint(directory)) is not None:
        try:
            epoch_of(newest)
        except TarmacError as error:
            aside = newest.with_name(newest.name + _DAMAGED)
            # Another process of the attempt may have renamed it.
            with contextlib.suppress(FileNotFoundError):
                newest.rename(aside)
                text = (
                    f"{error.message}; it is kept as {aside.name}, and the checkpoint before it "
                    "is used"
                )
                warnings.warn(text, stacklevel=2)
        else:
            return


def read_checkpoint(path: Path, workload: str) -> TrainingState:
    """Read a checkpoint of a workload.

    Raises:
        RequestError: The checkpoint is of another workload, or from a newer version.
        TarmacError: The file is damaged.
    """
    names = ("model", "optimizer", "random", "feed")
    parts: dict[str, dict[str, torch.Tensor]] = {name: {} for name in names}
    with _open(path) as (file, header):
        for key in file.keys():  # noqa: SIM118 - not a mapping
            part, _, name = key.partition("/")
            if part in parts:
                parts[part][name] = file.get_tensor(key)
        totals = file.get_tensor("totals")
    if header["version"] > _VERSION:
        raise RequestError(
            f"checkpoint {path} is of version {header['version']}, "
            f"this Tarmac reads up to {_VERSION}",
            hint=upgrade_hint(),
        )
    if header["workload"] != workload:
        raise RequestError(f"checkpoint {path} is of {header['workload']}, not of {workload}")
    return TrainingState(
        workload=workload,
        epoch=header["epoch"],
        step=header["step"],
        seconds=header["seconds"],
        totals=totals,
        **parts,
    )


def check_fits(checkpoint: TrainingState, model: Mapping[str, torch.Tensor], path: Path) -> None:
    """Raise a RequestError if a checkpoint's weights differ from the model's in name or shape."""
    theirs = {name: list(value.shape) for name, value in checkpoint.model.items()}
    ours = {name: list(value.shape) for name, value in model.items()}
    for name in sorted(theirs.keys() | ours):
        if theirs.get(name) == ours.get(name):
            continue
        raise RequestError(
            f"checkpoint {path} does not fit the model: {name} is "
            f"{theirs.get(name, 'absent')} there and {ours.get(name, 'absent')} here",
            hint="The workload was changed since. Start a new run.",
        )
