"""Checkpoints in shards as directories: their name, what they say of themselves, and copies.

Nothing here imports `torch.distributed.checkpoint`, which takes a third as long as PyTorch itself:
that is for those who read or write shards.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError, TarmacError, quoted, short_reason
from tarmac.files import (
    Shape,
    parse_json,
    read_regular,
    replace_directory,
    storage_errors,
    write_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# How names of such checkpoints end.
SHARDED = ".dcp"

_VERSION = 1
POSITION = "position.json"

# What any checkpoint says of itself.
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

# What reading a damaged directory raises.
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
    """Write where a training is into its checkpoint.

    Args:
        directory: Directory of the sharded checkpoint.
        workload: Reference of the workload that is trained.
        epoch: Number of completed epochs.
        step: Number of completed steps of the next epoch.
        seconds: Spent on that epoch.
        checksums: Checksums of the other files, by file name; see `file_checksum`.

    Raises:
        StorageError: It cannot be written.
    """
    position = {"workload": workload, "epoch": epoch, "step": step, "seconds": seconds}
    write_json(
        directory / POSITION, {"version": _VERSION, **position, "checksums": dict(checksums)}
    )


def read_position(path: Path) -> dict[str, Any]:
    """Return what a checkpoint says of itself: ``workload``, ``epoch``, ``step``, ``seconds``.

    ``checksums`` has those of its other files by name; those of 0.1 do not have it.

    Raises:
        RequestError: It is from a newer version.
        TarmacError: It is damaged.
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
    """Give a checkpoint a second name, by links where the file system has them.

    Raises:
        StorageError: It could not be; what had that name is still there.
    """
    temporary = path.with_name(f".{path.name}.link")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.copytree(source, temporary, copy_function=_link_or_copy)
        replace_directory(temporary, path)


@contextlib.contextmanager
def damage_explained(path: Path, *also: type[BaseException]) -> Iterator[None]:
    """Say of what goes wrong within that a checkpoint is damaged.

    Args:
        path: Directory of the sharded checkpoint.
        also: What else is raised where it is.

    Raises:
        TarmacError: It is.
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
    """Return what to type where a file of a run's weights is damaged; None where it is of no run.

    Args:
        path: A checkpoint, or the weights at the end.
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
        return f"To take its newest checkpoint instead, {newest.name}:\n{remove}"
    if path.stem == "best":
        return "The weights at the end are another file: --checkpoint last"
    before = max((checkpoint for checkpoint in known if checkpoint.name < path.name), default=None)
    where = "from the beginning" if before is None else f"from the one before it, {before.name}"
    return f"To go on {where}:\n{remove}\ntarmac train --resume {quoted(run)}"


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Some file systems have no links, and none go from one to another.
        shutil.copyfile(source, target)
