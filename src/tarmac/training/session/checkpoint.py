"""Checkpoints: one safetensors file each, whole or absent, with all that a training goes on from.

Nothing is unpickled: tensors are read as such, and the position is JSON in the file's header.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from tarmac.distribution import upgrade_hint
from tarmac.errors import RequestError, TarmacError
from tarmac.files import write_bytes
from tarmac.training.engine.state import TrainingState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "check_fits",
    "newest_checkpoint",
    "portable",
    "read_checkpoint",
    "write_checkpoint",
]

_VERSION = 1

# One more than needed, in case the newest is damaged on its disk.
_NUM_KEPT = 2


def write_checkpoint(directory: Path, checkpoint: TrainingState) -> Path:
    """Write a checkpoint and remove all but the newest ones before it.

    It computes nothing by PyTorch, as a thread beside a training must not: `CheckpointWriter`.

    Args:
        directory: Where checkpoints are.
        checkpoint: Whose tensors are on the CPU, none in memory of another.

    Raises:
        StorageError: It could not be written; those before it are still there.
    """
    tensors = {
        f"{part}/{name}": _in_usual_order(value)
        for part in ("model", "optimizer", "random")
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
    write_bytes(path, save(tensors, metadata={"tarmac": json.dumps(header)}))
    for old in sorted(directory.glob("epoch-*.safetensors"))[:-_NUM_KEPT]:
        old.unlink(missing_ok=True)
    return path


def _in_usual_order(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in the usual memory order, by NumPy, which computes in this thread alone."""
    if tensor.is_contiguous():
        return tensor
    return torch.from_numpy(np.ascontiguousarray(tensor.numpy()))


def portable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy on the CPU in the usual memory order, as safetensors wants it."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def newest_checkpoint(directory: Path) -> Path | None:
    """Return the newest checkpoint's path, or None where there is none yet."""
    return max(directory.glob("epoch-*.safetensors"), default=None)


def read_checkpoint(path: Path, workload: str) -> TrainingState:
    """Read a checkpoint of a workload.

    Raises:
        RequestError: It is of another workload, or from a newer version.
        TarmacError: The file is damaged.
    """
    parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "optimizer": {}, "random": {}}
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["tarmac"])
            for key in file.keys():  # noqa: SIM118 - not a mapping
                part, _, name = key.partition("/")
                if part in parts:
                    parts[part][name] = file.get_tensor(key)
            totals = file.get_tensor("totals")
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise TarmacError(
            f"checkpoint {path} is damaged: {error}",
            hint="Remove it, and resume from the one before it.",
        ) from error
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
    """Raise a RequestError where a checkpoint's weights are not those of the model's shape."""
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
