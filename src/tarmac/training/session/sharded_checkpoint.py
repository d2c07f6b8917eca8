"""Checkpoints that all ranks write together by `torch.distributed.checkpoint`.

A checkpoint is a directory, whole or absent, that any number of ranks can read.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from tarmac.errors import RequestError
from tarmac.files import StorageError, replace_directory
from tarmac.training.engine.engine import Engine
from tarmac.training.engine.state import TrainingState
from tarmac.training.engine.team import Team
from tarmac.training.shard_directories import (
    SHARDED,
    damage_explained,
    read_position,
    write_position,
)
from tarmac.training.shards import ShardReader
from tarmac.training.tensor_files import file_checksum

_PARTS = ("model", "optimizer", "random", "feed")


def write_sharded(directory: Path, state: TrainingState, team: Team) -> Path:
    """Write a checkpoint; all ranks must call it, and all must see the directory.

    Args:
        directory: Directory of the run's checkpoints, which all ranks see.
        state: Training state, whose DTensors hold this rank's shards.
        team: All ranks of the training.

    Returns:
        The checkpoint's path, on every rank.

    Raises:
        StorageError: Some rank could not write; earlier checkpoints still exist.
    """
    path = directory / f"epoch-{state.epoch:05d}-step-{state.step:07d}{SHARDED}"
    # Remove the temporary directory of a lost attempt, which may exist already.
    temporary = directory / f".{path.name}.part"
    if team.is_main:
        for left in directory.glob(f".*{SHARDED}.part"):
            shutil.rmtree(left, ignore_errors=True)
    team.all_gather(None)
    tensors = {
        f"{part}/{name}": value for part in _PARTS for name, value in getattr(state, part).items()
    }
    tensors["totals"] = state.totals
    try:
        save(tensors, storage_writer=FileSystemWriter(temporary, sync_files=True))
    except (CheckpointException, OSError) as error:
        raise StorageError(f"checkpoint {path} could not be written: {error}") from error
    failure = ""
    # Each rank reads the file that it has just written, which is still in its host's memory.
    own = {path.name: file_checksum(path) for path in temporary.glob(f"__{team.rank}_*")}
    checksums = {name: value for part in team.all_gather(own) for name, value in part.items()}
    if team.is_main:
        try:
            checksums |= {
                other.name: file_checksum(other)
                for other in temporary.iterdir()
                if other.name not in checksums
            }
            write_position(
                temporary,
                workload=state.workload,
                epoch=state.epoch,
                step=state.step,
                seconds=state.seconds,
                checksums=checksums,
            )
            replace_directory(temporary, path)
        except (StorageError, OSError) as error:
            failure = str(error)
    if failure := team.all_gather(failure)[0]:
        raise StorageError(f"checkpoint {path} could not be written: {failure}")
    return path


def read_sharded(path: Path, workload: str, engine: Engine, team: Team) -> TrainingState:
    """Read this rank's shards of a checkpoint of any number of ranks; all ranks must call it.

    Args:
        path: Directory of the sharded checkpoint.
        workload: Reference of the workload that the checkpoint must belong to.
        engine: Engine that knows which shards this rank holds.
        team: All ranks, which share the work of checking the files.

    Raises:
        RequestError: The checkpoint is of another workload or does not fit the model.
        TarmacError: The checkpoint is damaged.
    """
    position = read_position(path)
    if position["workload"] != workload:
        raise RequestError(f"checkpoint {path} is of {position['workload']}, not of {workload}")
    with damage_explained(path, CheckpointException):
        reader = ShardReader(path)
        damage = None
        try:
            reader.check(part=team.rank, num_parts=team.world_size)
        except (OSError, ValueError) as error:
            damage = error
        for seen in filter(None, team.all_gather(damage)):
            raise seen
        weights = engine.weights()
        room: dict[str, torch.Tensor] = {}
        for key, stored in reader.shapes().items():
            part, _, name = key.partition("/")
            shape, dtype = stored.size, stored.properties.dtype
            if part == "model" and name in weights and weights[name].shape == shape:
                room[key] = torch.empty_like(weights[name])
            elif part == "optimizer":
                room[key] = engine.state_template(name, shape, dtype)
            else:
                room[key] = torch.empty(shape, dtype=dtype)
        load(room, storage_reader=reader)
    parts: dict[str, dict[str, torch.Tensor]] = {part: {} for part in _PARTS}
    for key, value in room.items():
        part, _, name = key.partition("/")
        if part in parts:
            parts[part][name] = value
    return TrainingState(
        workload=workload,
        epoch=position["epoch"],
        step=position["step"],
        seconds=position["seconds"],
        totals=room["totals"],
        **parts,
    )
