"""Checkpoints in shards as directories: their name, what they say of themselves, and copies.

Nothing here imports `torch.distributed.checkpoint`, which takes a third as long as PyTorch itself:
that is for those who read or write shards.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError, TarmacError
from tarmac.files import replace_directory, storage_errors, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "POSITION",
    "SHARDED",
    "copy_sharded",
    "damage_explained",
    "read_position",
    "write_position",
]

# How names of such checkpoints end.
SHARDED = ".dcp"

_VERSION = 1
POSITION = "position.json"

# What reading a damaged directory raises.
_OF_DAMAGE: tuple[type[BaseException], ...] = (
    *(OSError, ValueError, KeyError, EOFError),
    *(pickle.UnpicklingError, AttributeError, IndexError),
)


def write_position(
    directory: Path, *, workload: str, epoch: int, step: int, seconds: float
) -> None:
    """Write where a training is into its checkpoint.

    Raises:
        StorageError: It cannot be written.
    """
    position = {"workload": workload, "epoch": epoch, "step": step, "seconds": seconds}
    write_json(directory / POSITION, {"version": _VERSION, **position})


def read_position(path: Path) -> dict[str, Any]:
    """Return what a checkpoint says of itself: ``workload``, ``epoch``, ``step``, ``seconds``.

    Raises:
        RequestError: It is from a newer version.
        TarmacError: It is damaged.
    """
    with damage_explained(path):
        position: dict[str, Any] = json.loads((path / POSITION).read_bytes())
        newer = int(position["version"]) > _VERSION
    if newer:
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
        path: The checkpoint.
        also: What else is raised where it is.

    Raises:
        TarmacError: It is.
    """
    try:
        yield
    except (*_OF_DAMAGE, *also) as error:
        said = str(error).partition("\n")[0] or type(error).__name__
        raise TarmacError(
            f"checkpoint {path} is damaged: {said}",
            hint="Remove it, and resume from the one before it.",
        ) from error


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Some file systems have no links, and none go from one to another.
        shutil.copyfile(source, target)
