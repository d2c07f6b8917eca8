"""Reading of sharded checkpoints by `torch.distributed.checkpoint`.

PyTorch writes the index as a pickle. The unpickler allows only the classes of such an index, so a
checkpoint from an untrusted source runs no code.
"""

from __future__ import annotations

import enum
import pickle
import warnings
from pathlib import Path, PosixPath
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from tarmac.training.shard_directories import damage_explained, read_position
from tarmac.training.tensor_files import file_checksum

_MODEL = "model/"

_METADATA = "torch.distributed.checkpoint.metadata"
_OF_AN_INDEX = frozenset(
    {
        *((_METADATA, name) for name in ("ChunkStorageMetadata", "Metadata", "MetadataIndex")),
        *((_METADATA, name) for name in ("StorageMeta", "TensorProperties")),
        *((_METADATA, name) for name in ("TensorStorageMetadata", "_MEM_FORMAT_ENCODING")),
        ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
        ("torch.serialization", "_get_layout"),
        ("torch", "Size"),
    }
)


class ShardReader(FileSystemReader):
    """A reader of a checkpoint's directory, with checks."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the index.

        Raises:
            pickle.UnpicklingError: The index names a class or function that is not allowed.
            OSError: The index cannot be read.
        """
        del args, kwargs
        with (Path(self.path) / ".metadata").open("rb") as file:
            index: Metadata = _IndexUnpickler(file).load()
        if index.storage_meta is None:
            index.storage_meta = StorageMeta()
        index.storage_meta.load_id = self.load_id
        return index

    def shapes(self) -> dict[str, TensorStorageMetadata]:
        """Return each tensor's metadata, by name.

        Raises:
            ValueError: An entry is no tensor.
        """
        entries = self.read_metadata().state_dict_metadata
        tensors = {n: s for n, s in entries.items() if isinstance(s, TensorStorageMetadata)}
        if others := entries.keys() - tensors.keys():
            raise ValueError(f"{min(others)} is no tensor")
        return tensors

    def check(self, *, part: int = 0, num_parts: int = 1) -> None:
        """Check the files' sizes and checksums, as PyTorch does not name what is missing.

        Args:
            part: Share of the files to read and checksum, from 0; the sizes of all files are
                checked.
            num_parts: Number of shares that the files are divided into. Default 1.

        Raises:
            OSError: A file does not exist.
            ValueError: A file is too short, or its checksum differs.
        """
        ends: dict[str, int] = {}
        for stored in (self.read_metadata().storage_data or {}).values():
            name, end = str(stored.relative_path), stored.offset + stored.length
            ends[name] = max(end, ends.get(name, 0))
        for name, end in sorted(ends.items()):
            size = (Path(self.path) / name).stat().st_size
            if size < end:
                raise ValueError(f"{name} has {size} bytes, expected at least {end}")
        known = read_position(Path(self.path)).get("checksums", {})
        for name in sorted(known)[part::num_parts]:
            checksum = file_checksum(Path(self.path) / name)
            if checksum != known[name]:
                raise ValueError(f"{name} has checksum {checksum}, expected {known[name]}")


class _IndexUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _OF_AN_INDEX or (
            module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        ):
            return super().find_class(module, name)
        # Python 3.13 names the module ``pathlib._local``.
        if module in ("pathlib", "pathlib._local") and name == "PosixPath":
            return PosixPath
        # Python before 3.11.4 pickles a member of an enumeration as a call of ``getattr``.
        if (module, name) == ("builtins", "getattr"):
            return _member
        raise pickle.UnpicklingError(f"its index names {module}.{name}, which is no part of one")


def _member(kind: Any, name: str) -> Any:
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        raise pickle.UnpicklingError(f"its index asks for {name} of {kind!r}")
    return kind[name]


def check_shards(path: Path) -> None:
    """Check that a checkpoint is complete and that its files have their checksums.

    Args:
        path: Directory of a sharded checkpoint.

    Raises:
        TarmacError: The checkpoint is damaged.
    """
    with damage_explained(path, CheckpointException):
        ShardReader(path).check()


def read_sharded_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read a model's whole weights to the CPU, in one process.

    Args:
        path: Directory of a sharded checkpoint.

    Raises:
        TarmacError: The checkpoint is damaged.
    """
    with damage_explained(path, CheckpointException):
        reader = ShardReader(path)
        reader.check()
        room = {
            name: torch.empty(stored.size, dtype=stored.properties.dtype)
            for name, stored in reader.shapes().items()
            if name.startswith(_MODEL)
        }
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            load(room, storage_reader=reader, no_dist=True)
    return {name.removeprefix(_MODEL): value for name, value in room.items()}
