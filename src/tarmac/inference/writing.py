"""Files of predictions: JSON lines, CSV tables or NumPy arrays."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tarmac.errors import RequestError
from tarmac.files import atomic_writer
from tarmac.inference.predicting import Predictions

_ENDINGS = (".jsonl", ".ndjson", ".csv", ".npy", ".npz")


def check_target(path: Path) -> None:
    """Raise a RequestError if predictions cannot be written to a file with this ending."""
    if path.suffix.lower() not in _ENDINGS:
        raise RequestError(
            f"{path}: predictions are not written as {path.suffix or 'files without an ending'}",
            hint=f"Choose one of these: {', '.join(_ENDINGS)}",
        )


def write_predictions(path: Path, batches: Iterable[Predictions]) -> int:
    """Write predictions to a file, whole or not at all.

    Args:
        path: File to write. ``.jsonl`` and ``.csv`` have a line for each sample. ``.npy`` has the
            model's output, which must be one array. ``.npz`` has all outputs by name, and ``class``
            and ``probability`` if the model classifies.
        batches: Predictions by batch, in the order of the samples.

    Returns:
        The number of samples.

    Raises:
        RequestError: The ending is unknown, or there are several outputs for ``.npy``.
        StorageError: The file cannot be written.
    """
    check_target(path)
    ending = path.suffix.lower()
    count = 0

    def counted() -> Iterator[Predictions]:
        nonlocal count
        for some in batches:
            yield some
            count += len(some)

    with atomic_writer(path) as file:
        if ending == ".csv":
            _write_csv(file, counted())
        elif ending in (".npy", ".npz"):
            _write_arrays(file, [*counted()], is_one=ending == ".npy", path=path)
        else:
            for line in json_lines(counted()):
                file.write(f"{line}\n".encode())
    return count


def json_lines(batches: Iterable[Predictions]) -> Iterator[str]:
    """Yield a JSON object for each sample: its index, file, class and label, and the outputs."""
    index = 0
    for some in batches:
        outputs = {name: _plain(array) for name, array in some.outputs.items()}
        for row in range(len(some)):
            line: dict[str, Any] = {"index": index}
            line |= _about(some, row)
            line |= {name: values[row] for name, values in outputs.items()}
            yield json.dumps(line)
            index += 1


def _about(some: Predictions, row: int) -> dict[str, Any]:
    """Return the fields of a sample other than its outputs, such as its class."""
    fields: dict[str, Any] = {} if some.files is None else {"file": some.files[row]}
    if some.classes is not None and some.probabilities is not None:
        fields["class"] = int(some.classes[row])
        if some.labels is not None:
            fields["label"] = some.labels[row]
        fields["probability"] = _shortest(some.probabilities[row])
    return fields


def _write_csv(file: IO[bytes], batches: Iterable[Predictions]) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    index = 0
    for some in batches:
        flat = {name: array.reshape(len(some), -1) for name, array in some.outputs.items()}
        if index == 0:
            writer.writerow(["index", *_about(some, 0), *_columns(some)])
        for row in range(len(some)):
            values = [value for array in flat.values() for value in _plain(array[row])]
            writer.writerow([index, *_about(some, row).values(), *values])
            index += 1
    text.flush()
    # The caller closes the file.
    text.detach()


def _columns(some: Predictions) -> Iterator[str]:
    """Yield a name for each value of the outputs: ``output``, or ``output.0``, ``output.1``."""
    for name, array in some.outputs.items():
        if array.ndim == 1:
            yield name
        else:
            yield from (f"{name}.{at}" for at in range(array[0].size))


def _write_arrays(file: IO[bytes], parts: list[Predictions], *, is_one: bool, path: Path) -> None:
    arrays = {
        name: np.concatenate([part.outputs[name] for part in parts]) for name in parts[0].outputs
    }
    if is_one:
        if len(arrays) > 1:
            raise RequestError(
                f"{path} holds one array, but the model returns {', '.join(arrays)}",
                hint="Write them by name: --output FILE.npz",
            )
        np.save(file, next(iter(arrays.values())), allow_pickle=False)
        return
    classes = [part.classes for part in parts if part.classes is not None]
    probabilities = [part.probabilities for part in parts if part.probabilities is not None]
    if classes and probabilities:
        arrays |= {"class": np.concatenate(classes), "probability": np.concatenate(probabilities)}
    np.savez(file, allow_pickle=False, **arrays)


def _plain(array: NDArray[Any]) -> Any:
    """Return nested lists of numbers, each with no more digits than its type has."""
    if array.dtype.kind != "f":
        return array.tolist()
    if array.ndim == 1:
        return [_shortest(value) for value in array]
    return [_plain(part) for part in array]


def _shortest(value: Any) -> float | None:
    """Return a float with its shortest digits; None for NaN and infinity, which JSON lacks."""
    number = float(str(value))
    return number if math.isfinite(number) else None
