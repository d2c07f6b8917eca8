"""Convert the columns of a table to arrays, by the purpose of each column."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tarmac.data.own.parts import (
    Part,
    as_float32,
    note_on_classes,
    note_on_values,
    refuse_as_classes,
)
from tarmac.errors import RequestError, TarmacError, quoted, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

_FILLS: Mapping[str, Callable[[NDArray[np.float64]], Any]] = {"median": np.median, "mean": np.mean}
# Categories of a column: more distinct values identify rows rather than categories.
_MAX_LEVELS = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableColumns:
    """The purpose of each column of a table.

    Attributes:
        targets: Columns to predict: one column of classes, or columns of values.
        weights: Column with the weight of each sample. None: all weights are equal.
        dropped: Columns to leave out of inputs and targets.
        categorical: Columns to encode as one column per value: 1 in its rows, else 0. A missing
            value gives 0 everywhere.
        fill: Replacement for missing numbers of the inputs: ``median`` or ``mean`` of the column in
            the training rows, or a number. None refuses missing numbers.
        as_values: Whether whole numbers in the target are values rather than classes.
        as_classes: Whether whole numbers in the target are classes, however many there are.
    """

    targets: tuple[str, ...] = ()
    weights: str | None = None
    dropped: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    fill: str | None = None
    as_values: bool = False
    as_classes: bool = False

    def __post_init__(self) -> None:
        if self.fill is not None and self.fill not in _FILLS and not _is_number(self.fill):
            raise RequestError(f"fill is {self.fill!r}, expected median, mean or a number")

    def named_in(self, columns: Sequence[str]) -> TableColumns:
        """Return the columns with lists split at commas: ``id,street`` is two columns.

        Args:
            columns: Names of the table's columns. A text that equals a column's name is never
                split.

        Raises:
            RequestError: The table lacks a named column, or a column has two purposes.
        """
        resolved: dict[str, Any] = {
            field: tuple(name for text in getattr(self, field) for name in _names_in(text, columns))
            for field in ("targets", "dropped", "categorical")
        }
        weights = () if self.weights is None else (self.weights,)
        named = [name for names in (*resolved.values(), weights) for name in names]
        for name in named:
            if named.count(name) > 1:
                count = named.count(name)
                raise RequestError(
                    f"column {name!r} is named {count} times, expected one purpose of it"
                )
            if name not in columns:
                raise unknown_name("column", name, dict.fromkeys(columns, ""))
        return dataclasses.replace(self, **resolved)


def _names_in(text: str, columns: Sequence[str]) -> list[str]:
    return [text] if text in columns else [name.strip() for name in text.split(",")]


def classes_of(
    tables: Sequence[pa.Table], paths: Sequence[Path], columns: TableColumns
) -> tuple[list[Any] | None, tuple[str, ...]]:
    """Return the sorted values of the target if they are classes, else None; and notes."""
    import pyarrow.types as kinds  # noqa: PLC0415

    if len(columns.targets) != 1 or columns.as_values:
        return None, ()
    (name,) = columns.targets
    where = f"{paths[0]}: column {name!r}"
    kind = tables[0].schema.field(name).type
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    is_text = kinds.is_string(kind) or kinds.is_large_string(kind)
    is_whole = kinds.is_integer(kind) or columns.as_classes
    if not (is_text or kinds.is_boolean(kind) or is_whole):
        return None, note_on_values(_numbers(tables[0], paths[0], name), where)
    different: set[Any] = set()
    for table, path in zip(tables, paths, strict=True):
        _check_whole(table, path, name)
        different |= set(table.column(name).unique().to_pylist())
    if is_whole and not is_text:
        different = _as_whole(different, where)
    num_rows = sum(table.num_rows for table in tables)
    notes: tuple[str, ...] = ()
    if not columns.as_classes:
        refuse_as_classes(len(different), num_rows, where, is_text=is_text)
        if is_whole:
            notes = note_on_classes(len(different), num_rows, where)
    try:
        return sorted(different), notes
    except TypeError as error:
        raise TarmacError(f"{' and '.join(map(str, paths))} differ in type at {name!r}") from error


def _as_whole(values: set[Any], where: str) -> set[Any]:
    """Convert whole floats to integers, so that 1.0 is the class 1."""
    for value in values:
        if isinstance(value, float) and not value.is_integer():
            raise TarmacError(f"{where} holds {value}, which is no class")
    return {int(value) if isinstance(value, float) else value for value in values}


def levels_of(tables: Sequence[pa.Table], paths: Sequence[Path], name: str) -> list[str]:
    """Return the distinct values of a column as sorted texts."""
    levels = {
        str(value)
        for table in tables
        for value in table.column(name).unique().to_pylist()
        if value is not None
    }
    if len(levels) > _MAX_LEVELS:
        raise RequestError(
            f"{paths[0]}: column {name!r} has {len(levels):,} different values, expected at most "
            f"{_MAX_LEVELS:,} categories",
            hint=f"Leave it out: {_option('--drop', [name])}",
        )
    return sorted(levels)


def note_on_counting(table: pa.Table, name: str) -> tuple[str, ...]:
    """Return a note if a column counts the rows, as an index of pandas does."""
    import pyarrow.types as kinds  # noqa: PLC0415

    column = table.column(name)
    if table.num_rows < 2 or not kinds.is_integer(column.type) or column.null_count:
        return ()
    first = column[0].as_py()
    if first not in (0, 1) or column.to_pylist() != [*range(first, first + table.num_rows)]:
        return ()
    what = f"column {name!r}" if name else "the column without a name, pandas' index,"
    return (
        f"{what} counts the rows and is an input; to leave it out: {_option('--drop', [name])}",
    )


def check_inputs(table: pa.Table, path: Path, names: Sequence[str], columns: TableColumns) -> None:
    """Raise one TarmacError if several columns hold texts or lack values, with the options."""
    texts = [name for name in names if not _is_numeric(table.column(name).type)]
    lacking = [
        name
        for name in names
        if columns.fill is None and name not in texts and table.column(name).null_count
    ]
    if len(texts) + len(lacking) < 2:
        return
    lines = [_words_on_text(table, name) for name in texts]
    lines += [_words_on_missing(table, name) for name in lacking]
    ways = [f"Columns of a value each: {_option('--categorical', texts)}"] if texts else []
    ways += ["Fill what is missing: --fill median"] if lacking else []
    raise TarmacError(
        f"{path}: {len(lines)} columns are no numbers in every row",
        hint="\n".join([*lines, *ways, f"Leave them out: {_option('--drop', [*texts, *lacking])}"]),
    )


def _words_on_text(table: pa.Table, name: str) -> str:
    if table.column(name).null_count == table.num_rows:
        return f"column {name!r}: no value in any row"
    values = table.column(name).to_pylist()
    row = next((number for number, value in enumerate(values) if not _is_number(value)), 0)
    kind = table.column(name).type
    return f"row {row + 1}, column {name!r}: {kind} such as {str(values[row])[:40]!r}"


def _words_on_missing(table: pa.Table, name: str) -> str:
    column = table.column(name)
    row = column.is_null().to_pylist().index(True)
    return f"row {row + 1}, column {name!r}: no value, nor in {column.null_count - 1:,} others"


def _option(name: str, columns: Sequence[str]) -> str:
    """Return a shell option with columns; repeat the option if a column's name has a comma."""
    has_comma = any("," in column for column in columns)
    values = columns if has_comma else [",".join(columns)]
    return " ".join(f"{name} {quoted(value)}" for value in values)


def part_of(
    table: pa.Table,
    path: Path,
    inputs: Mapping[str, Sequence[str] | None],
    columns: TableColumns,
    classes: Sequence[Any] | None,
) -> Part:
    """Return the rows of a table as arrays.

    Args:
        table: Table whose columns `check_inputs` has accepted.
        path: Path of the table's file, for messages.
        inputs: Input columns in order, each with its categories. None: the column holds numbers.
        columns: Purpose of the other columns.
        classes: Classes of the target in order. None: targets are values.
    """
    may_lack = columns.fill is not None
    arrays = [
        array
        for name, levels in inputs.items()
        for array in (
            [_numbers(table, path, name, may_lack=may_lack)]
            if levels is None
            else _indicators(table, name, levels)
        )
    ]
    targets: NDArray[Any] | None = None
    if classes is not None:
        numbered = {value: number for number, value in enumerate(classes)}
        (name,) = columns.targets
        targets = np.array([numbered[v] for v in table.column(name).to_pylist()], dtype=np.int64)
    elif len(columns.targets) == 1:
        targets = _numbers(table, path, columns.targets[0])
    elif columns.targets:
        targets = np.stack([_numbers(table, path, name) for name in columns.targets], axis=1)
    weights = None if columns.weights is None else _numbers(table, path, columns.weights)
    if weights is not None and weights.min() < 0:
        row = int(weights.argmin()) + 1
        raise TarmacError(f"{path}: row {row}, column {columns.weights!r}: a weight below 0")
    return Part(inputs=np.stack(arrays, axis=1), targets=targets, weights=weights)


def _indicators(table: pa.Table, name: str, levels: Sequence[str]) -> Iterator[NDArray[np.float32]]:
    numbers = {level: number for number, level in enumerate(levels)}
    column = table.column(name).to_pylist()
    rows = np.array([-1 if value is None else numbers[str(value)] for value in column])
    for number in range(len(levels)):
        yield (rows == number).astype(np.float32)


def filled(parts: Sequence[Part], fill: str, features: Sequence[str], path: Path) -> list[Part]:
    """Replace missing numbers; median and mean come from the training rows only."""
    learnt = parts[0].inputs
    values = np.full(len(features), 0.0 if fill in _FILLS else float(fill), dtype=np.float32)
    for column in range(len(features)) if fill in _FILLS else ():
        known = learnt[:, column][~np.isnan(learnt[:, column])]
        if not len(known):
            raise TarmacError(
                f"{path}: column {features[column]!r} has no value in the rows that are trained on",
                hint=f"Leave it out: {_option('--drop', [features[column]])}",
            )
        values[column] = _FILLS[fill](known.astype(np.float64))
    return [
        dataclasses.replace(part, inputs=np.where(np.isnan(part.inputs), values, part.inputs))
        for part in parts
    ]


def _is_numeric(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds  # noqa: PLC0415

    tests = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal)
    return any(test(kind) for test in tests)


def _numbers(
    table: pa.Table, path: Path, name: str, *, may_lack: bool = False
) -> NDArray[np.float32]:
    import pyarrow as pa  # noqa: PLC0415

    if not may_lack:
        _check_whole(table, path, name)
    column = table.column(name)
    if not _is_numeric(column.type):
        raise TarmacError(
            f"{path}: {_words_on_text(table, name)}, expected numbers",
            hint=f"Use one column per value: {_option('--categorical', [name])}\n"
            f"Leave it out: {_option('--drop', [name])}",
        )
    # An unsafe cast: integers that float64 cannot hold exactly are not exact in float32 either.
    values = as_float32(column.cast(pa.float64(), safe=False).to_numpy())
    wrong = np.isinf(values) if may_lack else ~np.isfinite(values)
    if wrong.any():
        row = int(wrong.argmax())
        raise TarmacError(
            f"{path}: row {row + 1}, column {name!r}: {column[row]}, expected a finite number of "
            "float32"
        )
    return values


def _check_whole(table: pa.Table, path: Path, name: str) -> None:
    column = table.column(name)
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise TarmacError(
            f"{path}: row {row + 1}, column {name!r}: no value",
            hint=f"{column.null_count:,} are missing. Fill them, of an input: --fill median\n"
            f"Leave out the column: {_option('--drop', [name])}",
        )


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False
