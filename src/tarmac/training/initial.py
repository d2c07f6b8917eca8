"""Initial weights of a training: reading them from a run or a file, and matching them by name."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from tarmac.errors import RequestError, TarmacError, short_reason
from tarmac.training.shard_directories import SHARDED, way_around_damage
from tarmac.training.tensor_files import open_tensors

# A copy of the initial weights in the run's directory. Resuming does not need the source again.
INITIAL = "initial.safetensors"

# Suffixes of files that ``torch.save`` writes.
PICKLED = (".pt", ".pth", ".bin", ".ckpt")
# Keys under which a PyTorch file nests its weights when it also holds other state.
_NESTED = ("state_dict", "model_state_dict", "model")
# Prefixes that DistributedDataParallel and torch.compile add to every name.
_WRAPPERS = ("module.", "_orig_mod.")
_MAX_LINES = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Initial:
    """Weights that fit a model, and the file they come from.

    Attributes:
        source: File that the weights were read from.
        weights: Tensors by the model's names, on the CPU, with the model's shapes and types.
        missing: Names in the model that keep their random initialization.
    """

    source: Path
    weights: Mapping[str, torch.Tensor]
    missing: tuple[str, ...] = ()


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read weights by name, on the CPU; unpickle nothing but tensors.

    Args:
        path: A ``.safetensors`` file, a run's checkpoint (a file or a directory of shards), or a
            file of ``torch.save``.

    Raises:
        RequestError: The file does not exist, holds no weights, or holds more than tensors.
        TarmacError: The file is damaged.
    """
    if path.suffix == SHARDED and path.is_dir():
        from tarmac.training.shards import read_sharded_weights  # noqa: PLC0415 - slow

        return read_sharded_weights(path)
    if not path.is_file():
        raise RequestError(f"weights {path}: there is no such file")
    return _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickled(path)


def fit_weights(
    source: Path,
    stored: Mapping[str, torch.Tensor],
    model: Mapping[str, torch.Tensor],
    *,
    partial: bool,
) -> Initial:
    """Match weights with a model's by name and shape.

    Args:
        source: Run or file that the weights come from, for messages.
        stored: Weights by name, as read from ``source``.
        model: The model's own weights by name. The result has their types.
        partial: Load only weights that match; the others keep their random initialization.

    Raises:
        RequestError: Without ``partial``: a name is on one side only, or a shape differs. With
            ``partial``: no weight matches.
    """
    weights = _unwrapped(stored, model)
    wrong = [
        f"{name} is {_show(weights.get(name))} there and {_show(model.get(name))} here"
        for name in sorted(weights.keys() | model.keys())
        if not _fits(weights.get(name), model.get(name))
    ]
    taken = {name: weights[name].to(model[name].dtype) for name in model if name in weights}
    taken = {name: value for name, value in taken.items() if _fits(weights[name], model[name])}
    if wrong and (not partial or not taken):
        count = f"{len(wrong)} of {len(weights.keys() | model.keys())} names"
        what = count if taken else "no name"
        ask = ["To load only those that fit: --init-partial"] if taken else []
        raise RequestError(
            f"weights {source} do not fit the model: {what} "
            + ("differ" if taken else "is in both with the same shape"),
            hint="\n".join([*_listed(wrong), *ask]),
        )
    missing = tuple(name for name in model if name not in taken)
    return Initial(source=source, weights=taken, missing=missing)


def _fits(theirs: torch.Tensor | None, ours: torch.Tensor | None) -> bool:
    return (
        theirs is not None
        and ours is not None
        and theirs.shape == ours.shape
        and theirs.is_floating_point() == ours.is_floating_point()
    )


def _show(tensor: torch.Tensor | None) -> str:
    if tensor is None:
        return "absent"
    kind = "" if tensor.is_floating_point() else f" {str(tensor.dtype).removeprefix('torch.')}"
    return f"{list(tensor.shape)}{kind}"


def _listed(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LINES:
        return lines
    return [*lines[:_MAX_LINES], f"and {len(lines) - _MAX_LINES} more"]


def _unwrapped(
    stored: Mapping[str, torch.Tensor], model: Mapping[str, torch.Tensor]
) -> Mapping[str, torch.Tensor]:
    """Remove the prefix that a wrapper of the model has added to every name."""
    for prefix in _WRAPPERS:
        is_wrapped = stored and all(name.startswith(prefix) for name in stored)
        if is_wrapped and not any(name.startswith(prefix) for name in model):
            stored = {name.removeprefix(prefix): value for name, value in stored.items()}
    return stored


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        with open_tensors(path) as file:
            # A checkpoint also holds the optimizer's state, under another prefix.
            before = "model/" if "tarmac" in (file.metadata() or {}) else ""
            names = [name for name in file.keys() if name.startswith(before)]  # noqa: SIM118
            return {name.removeprefix(before): file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError) as error:
        if other := _other_kind(path):
            raise TarmacError(f"weights {path} are {other}") from None
        raise TarmacError(
            f"weights {path} cannot be read: {short_reason(error)}",
            hint=way_around_damage(path),
        ) from error


# First bytes of other files that are often downloaded or checked out in place of weights.
_OTHER_KINDS = {
    b"<": "an HTML page or XML: a login or an error of the server that it came from",
    b"version https://git-lfs": "a pointer of Git LFS; fetch the file itself: git lfs pull",
    b"{": "JSON, which holds no weights",
    b"\x89HDF": "HDF5, as Keras saves weights",
    b"GGUF": "GGUF, as llama.cpp reads it",
    b"\x1f\x8b": "compressed by gzip; unpack it first",
}
# First bytes of files of ``torch.save``: an archive, or a pickle.
_PICKLES = (b"PK", b"\x80")


def _other_kind(path: Path) -> str | None:
    """Return the kind of a file that holds no weights; None if the file may hold weights."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError:
        return None
    if not head:
        return "an empty file"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    kinds = (kind for start, kind in _OTHER_KINDS.items() if text.startswith(start))
    may_be_weights = path.suffix == ".safetensors" or head.startswith(_PICKLES)
    return next(kinds, None if may_be_weights else "not a file of torch.save")


def _read_pickled(path: Path) -> dict[str, torch.Tensor]:
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if other := _other_kind(path):
            raise TarmacError(f"weights {path} are {other}") from None
        raise RequestError(
            f"weights {path} hold objects other than tensors, which could run code when they are "
            "read",
            hint="Save the weights alone: torch.save(model.state_dict(), FILE)",
        ) from error
    except Exception as error:
        # For a damaged file PyTorch's reader raises any error, even a KeyError of a number.
        says_why = isinstance(error, RuntimeError | OSError | EOFError | ValueError)
        reason = str(error).partition("\n")[0] if says_why else "it is not a file of torch.save"
        reason = f"it is {other}" if (other := _other_kind(path)) else reason
        raise TarmacError(f"weights {path} cannot be read: {reason}") from error
    for key in _NESTED:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
            break
    weights = content if isinstance(content, dict) else {}
    if not weights or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in weights.items()
    ):
        raise RequestError(
            f"weights {path} are not tensors by name, but a {type(content).__name__}",
            hint="Save them with torch.save(model.state_dict(), FILE)",
        )
    return dict(weights)
