"""Samples from CSV: a line for each sample, a column for each value."""

from __future__ import annotations

import csv
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tarmac.errors import RequestError
from tarmac.files import read_errors
from tarmac.inference.parts import Part, Samples, as_part, join_parts
from tarmac.inference.reading.features import Feature, features_in
from tarmac.wording import counted


def read_csv(path: Path, parts: Sequence[Part], size: int) -> Iterator[Samples]:
    """Read a table of numbers; see `read_samples`.

    For samples of one array, columns are its values in order, row by row; a header is optional. If
    the data name the values, a header has these names, in any order. Samples of several parts need
    a header: ``age`` for a number, ``pixels.0``, ``pixels.1`` for the values of an array.
    """
    with read_errors(path), path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        try:
            first = next(rows, None)
            if first is None:
                return
            header = None if all(_is_number(text) for text in first) else first
            columns = _columns(path, header or first, parts, is_header=header is not None)
            data_rows = rows if header is not None else itertools.chain([first], rows)
            samples: list[dict[str, NDArray[Any]]] = []
            for row in data_rows:
                if not row:
                    continue
                samples.append(_sample(f"{path}:{rows.line_num}", row, parts, columns))
                if len(samples) == size:
                    yield Samples(join_parts(samples))
                    samples = []
            if samples:
                yield Samples(join_parts(samples))
        except UnicodeDecodeError as error:
            raise RequestError(f"{path}:{rows.line_num + 1}: this is not UTF-8") from error
        except csv.Error as error:
            raise RequestError(f"{path}:{rows.line_num}: {error}") from error


def _names(parts: Sequence[Part]) -> list[str]:
    """Return the names of all columns, in the order of the parts' values."""
    return [
        name
        for part in parts
        for name in (
            [f"{part.name}.{index}" for index in range(part.size)] if part.shape else [part.name]
        )
    ]


@dataclasses.dataclass(frozen=True)
class _Column:
    """The index of a value in a row, and its feature if the features have names."""

    index: int
    feature: Feature | None = None


def _columns(
    path: Path, first: Sequence[str], parts: Sequence[Part], *, is_header: bool
) -> list[_Column]:
    """Return the column of each of the parts' values."""
    expected = sum(part.size for part in parts)
    is_named = is_header and bool(parts[0].features)
    if not parts[0].name and not is_named:
        if len(first) != expected:
            raise RequestError(
                f"{path}:1: {counted(len(first), 'column')}, expected {expected}: a value for each "
                f"of {parts[0]}",
                hint="Leave out what the model does not take, such as the column of the targets.",
            )
        return [_Column(index) for index in range(expected)]
    names = [*parts[0].features] or _names(parts)
    if not is_header:
        raise RequestError(
            f"{path}:1: no line of names, which samples of several parts need",
            hint=f"Begin with: {','.join(names[:8])}{',...' if len(names) > 8 else ''}",
        )
    column_names = [name.strip() for name in first]
    features = features_in(column_names, names, f"{path}:1")
    if len(column_names) != len(set(column_names)):
        raise RequestError(f"{path}:1: columns do not fit; a column is there twice")
    return [_Column(column_names.index(feature.source), feature) for feature in features]


def _sample(
    where: str, row: Sequence[str], parts: Sequence[Part], columns: Sequence[_Column]
) -> dict[str, NDArray[Any]]:
    expected = len({column.index for column in columns})
    if len(row) != expected:
        raise RequestError(f"{where}: {counted(len(row), 'column')}, expected {expected}")
    sample, start = {}, 0
    for part in parts:
        values = [_number(where, row, at) for at in columns[start : start + part.size]]
        start += part.size
        flat = as_part(values, dataclasses.replace(part, shape=(part.size,)), where)
        sample[part.name] = flat.reshape(part.shape)
    return sample


def _number(where: str, row: Sequence[str], column: _Column) -> float | int:
    text = row[column.index].strip()
    if column.feature is not None and column.feature.categories:
        return column.feature.of_category(text, where)
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise RequestError(
            f"{where}: column {column.index + 1} is {text!r}, expected a number",
            hint=None if text else "Fill in what --fill has filled in for the training data.",
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
