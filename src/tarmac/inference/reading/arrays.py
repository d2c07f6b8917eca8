"""Samples from NumPy files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarmac.data import numpy_errors
from tarmac.errors import RequestError
from tarmac.files import read_errors
from tarmac.inference.parts import Part, Samples, as_part


def read_npy(path: Path, parts: Sequence[Part], size: int) -> Iterator[Samples]:
    """Read samples from a memory-mapped array; see `read_samples`."""
    if len(parts) > 1 or parts[0].name:
        names = ", ".join(part.name for part in parts)
        raise RequestError(
            f"{path} holds one array, but a sample has several parts: {names}",
            hint="Save them by name: numpy.savez(FILE, **parts)",
        )
    with read_errors(path):
        array = _load(path, mmap_mode="r")
    yield from cut_samples({"": array}, parts, size, str(path))


def read_npz(path: Path, parts: Sequence[Part], size: int) -> Iterator[Samples]:
    """Read arrays by name; for samples of one array, the only array or ``inputs``."""
    with read_errors(path), _load(path) as file:
        names = file.files
        if not parts[0].name:
            name = names[0] if len(names) == 1 else "inputs"
            if name not in names:
                raise RequestError(
                    f"{path} holds {', '.join(names) or 'nothing'}; which are the samples?",
                    hint="Name their array inputs, or save it alone.",
                )
            arrays = {"": _member(path, file, name)}
        else:
            wanted = {part.name for part in parts}
            if wanted != set(names):
                raise RequestError(
                    f"{path} holds {', '.join(names) or 'nothing'}, expected "
                    f"{', '.join(sorted(wanted))}"
                )
            arrays = {name: _member(path, file, name) for name in names}
    yield from cut_samples(arrays, parts, size, str(path))


def cut_samples(
    arrays: Mapping[str, NDArray[Any]], parts: Sequence[Part], size: int, where: str
) -> Iterator[Samples]:
    """Check arrays and yield them in batches of samples.

    Args:
        arrays: Arrays by the names of ``parts``, ``[num_samples, *shape]`` or one sample.
        parts: Expected parts of each sample.
        size: Largest number of samples in a batch.
        where: Beginning of error messages.

    Raises:
        RequestError: The arrays do not fit. For wrong values, the message names the samples.
    """
    whole = {}
    for part in parts:
        array = arrays[part.name]
        is_one = array.shape == part.shape
        if not is_one and array.shape[1:] != part.shape:
            named = f"{where}: {part.name}" if part.name else where
            raise RequestError(
                f"{named}: shape {list(array.shape)}, expected "
                f"{['num_samples', *part.shape]}".replace("'", "")
            )
        whole[part.name] = array[np.newaxis] if is_one else array
    lengths = {name: len(array) for name, array in whole.items()}
    if len(set(lengths.values())) > 1:
        raise RequestError(f"{where}: parts of different lengths: {lengths}")
    count = next(iter(lengths.values()))
    for start in range(0, count, size):
        stop = min(start + size, count)
        place = f"{where}: samples {start} to {stop - 1}"
        yield Samples(
            {part.name: as_part(whole[part.name][start:stop], part, place) for part in parts}
        )


def _load(path: Path, **options: Any) -> Any:
    with numpy_errors(f"{path} is damaged"):
        try:
            return np.load(path, allow_pickle=False, **options)
        except ValueError as error:
            raise RequestError(
                f"{path} holds objects, which would run code when they are read, or is not a "
                "NumPy file",
                hint="Save arrays of numbers.",
            ) from error


def _member(path: Path, file: Any, name: str) -> NDArray[Any]:
    with numpy_errors(f"{path}: {name} is damaged"):
        try:
            array = file[name]
        except ValueError as error:
            raise RequestError(f"{path}: {name} holds objects, expected numbers") from error
    if not isinstance(array, np.ndarray):
        raise RequestError(f"{path}: {name} is not an array, expected {name}.npy in the archive")
    return array
