"""Directories of sharded checkpoints: their names, positions and copies.

This module does not import `torch.distributed.checkpoint`, whose import takes a third as long as
PyTorch's. Only modules that read or write shards import it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tarmac.errors import RequestError, TarmacError, quoted, short_reason
from tarmac.files import (
    Shape,
    parse_json,
    read_regular,
    replace_directory,
    storage_errors,
    write_json,
)

# Suffix of sharded checkpoints.
SHARDED = ".dcp"

_VERSION = 1
POSITION = "position.json"

# Position that every checkpoint records.
POSITION_SHAPE = Shape(
    {
        "version": "whole number",
        "workload": "text",
        "epoch": "whole number",
        "step": "whole number",
        "seconds": "seconds",
    },
    {"checksums": "object"},
)

# Errors that reading a damaged directory raises.
_OF_DAMAGE: tuple[type[BaseException], ...] = (
    *(OSError, ValueError, KeyError, EOFError),
    *(pickle.UnpicklingError, AttributeError, IndexError),
)


def write_position(
    directory: Path,
    *,
    workload: str,
    epoch: int,
    step: int,
    seconds: float,
    checksums: Mapping[str, str],
) -> None:
    """Write the training's position into its checkpoint.

    Args:
        directory: Directory of the sharded checkpoint.
        workload: Reference of the workload that is trained.
        epoch: Number of completed epochs.
        step: Number of completed steps of the next epoch.
        seconds: Seconds spent on that next epoch.
        checksums: Checksums of the other files, by file name; see `file_checksum`.

    Raises:
        StorageError: The file cannot be written.
    """
    position = {"workload": workload, "epoch": epoch, "step": step, "seconds": seconds}
    write_json(
        directory / POSITION, {"version": _VERSION, **position, "checksums": dict(checksums)}
    )


def read_position(path: Path) -> dict[str, Any]:
    """Return the checkpoint's position: ``workload``, ``epoch``, ``step``, ``seconds``.

    ``checksums`` maps the other files' names to their checksums. Checkpoints of Tarmac 0.1 lack it.

    Raises:
        RequestError: The checkpoint is from a newer version.
        TarmacError: The checkpoint is damaged.
    """
    with damage_explained(path):
        position = POSITION_SHAPE.checked(parse_json(read_regular(path / POSITION)))
    if position["version"] > _VERSION:
        raise RequestError(
            f"checkpoint {path} is of version {position['version']}, this Tarmac reads up to "
            f"{_VERSION}"
        )
    return position


def copy_sharded(source: Path, path: Path) -> None:
    """Copy a checkpoint to a second path, by hard links if the file system supports them.

    Raises:
        StorageError: The copy failed; the previous content of ``path`` is unchanged.
    """
    temporary = path.with_name(f".{path.name}.link")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.copytree(source, temporary, copy_function=_link_or_copy)
        replace_directory(temporary, path)


@contextlib.contextmanager
def damage_explained(path: Path, *also: type[BaseException]) -> Iterator[None]:
    """Turn read errors inside the context into a message that the checkpoint is damaged.

    Args:
        path: Directory of the sharded checkpoint.
        also: Further errors that a damaged checkpoint raises.

    Raises:
        TarmacError: The checkpoint is damaged.
    """
    try:
        yield
    except (*_OF_DAMAGE, *also) as error:
        reason = short_reason(error).partition("\n")[0] or type(error).__name__
        inner = getattr(error, "filename", None)
        if isinstance(inner, str | Path) and Path(inner) != path:
            reason += f": {Path(inner).name}"
        raise TarmacError(
            f"checkpoint {path} is damaged: {reason}",
            hint=way_around_damage(path),
        ) from error


def way_around_damage(path: Path) -> str | None:
    """Return a command that works around a damaged file of weights; None outside of a run.

    Args:
        path: A checkpoint, or a run's final weights.
    """
    is_checkpoint = path.parent.name == "checkpoints"
    run = path.parent.parent if is_checkpoint else path.parent
    if not (run / "run.json").is_file():
        return None
    known = (
        checkpoint
        for checkpoint in run.glob("checkpoints/epoch-*")
        if checkpoint.suffix in (".safetensors", SHARDED)
    )
    remove = f"rm {'-r ' if path.is_dir() else ''}{quoted(path)}"
    if path.stem == "model":
        newest = max(known, default=None)
        if newest is None:
            return None
        return f"To use its newest checkpoint instead, {newest.name}:\n{remove}"
    if path.stem == "best":
        return "The final weights are in another file: --checkpoint last"
    before = max((checkpoint for checkpoint in known if checkpoint.name < path.name), default=None)
    where = "from the beginning" if before is None else f"from the one before it, {before.name}"
    return f"To resume {where}:\n{remove}\ntarmac train --resume {quoted(run)}"


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Some file systems have no hard links, and links cannot cross file systems.
        shutil.copyfile(source, target)
