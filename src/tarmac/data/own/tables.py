"""Reads datasets from tables: CSV and Parquet, by Apache Arrow."""

from __future__ import annotations

import codecs
import dataclasses
import gzip
import itertools
import shlex
import zlib
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tarmac.data.own.parts import Part, Parts, as_float32, cut_off_test
from tarmac.distribution import explained_imports
from tarmac.errors import RequestError, TarmacError, unknown_name
from tarmac.files import read_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["TableColumns", "is_table", "read_tables"]

_TEXTS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_SEPARATORS = (",", ";", "\t")
_BLOCK_BYTES = 2**20


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableColumns:
    """What the columns of a table are.

    Attributes:
        targets: What is to be predicted: one column of classes, or columns of values.
        weights: What each sample counts.
        dropped: Which are left out.
        as_values: Whether whole numbers in the target are values rather than classes.
    """

    targets: tuple[str, ...] = ()
    weights: str | None = None
    dropped: tuple[str, ...] = ()
    as_values: bool = False


def read_tables(
    train: Path, test: Path | None, columns: TableColumns, *, test_share: float
) -> Parts:
    """Read a table, all other columns of which are the inputs: float32 ``[rows, columns]``.

    A target of text, of truth values or of whole numbers is a class; any other is a value.

    Args:
        train: ``.csv``, ``.tsv``, either also as ``.gz``, or ``.parquet``.
        test: Another of the same columns; None to cut it off from ``train``.
        columns: What they are.
        test_share: Of the rows to score, where there is no ``test``.

    Raises:
        MissingExtraError: pyarrow is not installed.
        RequestError: There is no column of a name that was given.
        TarmacError: A table cannot be read, or holds what is no number: names the row and column.
    """
    tables = [_read(path) for path in (train, test) if path is not None]
    named = [*columns.targets, *columns.dropped, *([columns.weights] if columns.weights else [])]
    for name in named:
        if named.count(name) > 1:
            raise RequestError(
                f"column {name!r} is named {named.count(name)} times, expected one purpose of it"
            )
        if name not in tables[0].column_names:
            raise unknown_name("column", name, dict.fromkeys(tables[0].column_names, ""))
    features = tuple(name for name in tables[0].column_names if name not in named)
    if not features:
        raise RequestError(f"{train} has no column left for the inputs")
    paths = [path for path in (train, test) if path is not None]
    for path, table in zip(paths[1:], tables[1:], strict=True):
        if set(table.column_names) != set(tables[0].column_names):
            differing = sorted(set(table.column_names) ^ set(tables[0].column_names))
            raise TarmacError(f"{path} and {train} differ in columns: {', '.join(differing)}")
    classes = _classes(tables, paths, columns)
    read = [
        _part(table, path, features, columns, classes)
        for table, path in zip(tables, paths, strict=True)
    ]
    if len(read) == 1:
        learnt, scored = cut_off_test(len(read[0].inputs), test_share)
        read = [read[0].taken(learnt), read[0].taken(scored)]
    names = None if classes is None else tuple(map(str, classes))
    return Parts(train=read[0], test=read[1], classes=names, features=features)


def is_table(path: Path) -> bool:
    """Whether a path is that of a table, by its name."""
    return path.name.lower().endswith((*_TEXTS, ".parquet"))


def _read(path: Path) -> pa.Table:
    with explained_imports():
        import pyarrow as pa  # noqa: PLC0415 - of an extra
        from pyarrow import parquet  # noqa: PLC0415
    try:
        with read_errors(path):
            if path.suffix.lower() == ".parquet":
                with path.open("rb") as file:
                    table = parquet.read_table(file)
            else:
                table = _read_text(path)
    except (pa.ArrowException, EOFError, zlib.error) as error:
        raise TarmacError(f"{path} cannot be read: {error}") from error
    if not table.num_rows:
        raise TarmacError(f"{path} has no row below its head")
    doubled = {name for name in table.column_names if table.column_names.count(name) > 1}
    if doubled:
        raise TarmacError(f"{path} has several columns {', '.join(map(repr, sorted(doubled)))}")
    return table


def _read_text(path: Path) -> pa.Table:
    from pyarrow import csv  # noqa: PLC0415 - of an extra

    name = path.name.lower()
    opened: Callable[[Path, str], Any] = gzip.open if name.endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
            head = _check_utf8(file, path)
    except gzip.BadGzipFile as error:
        raise TarmacError(f"{path} cannot be read: {error}") from error
    separator = "\t" if ".tsv" in name[-len(".tsv.gz") :] else _separator(head)
    wrong: list[csv.InvalidRow] = []

    def note(row: csv.InvalidRow) -> str:
        wrong.append(row)
        return "skip"

    with opened(path, "rb") as file:
        table = csv.read_csv(
            file,
            # One thread knows the number of a row.
            read_options=csv.ReadOptions(use_threads=False),
            parse_options=csv.ParseOptions(delimiter=separator, invalid_row_handler=note),
        )
    if wrong:
        row = wrong[0]
        raise TarmacError(
            f"{path}:{row.number}: {row.actual_columns} values, expected {row.expected_columns}"
        )
    if _are_values(table.column_names):
        raise TarmacError(
            f"{path}:1: the first row holds numbers, expected the names of the columns",
            hint="Write a row with their names above it.",
        )
    return table


def _check_utf8(file: IO[bytes], path: Path) -> str:
    """Return the first line, and refuse a file that is not text in UTF-8 from end to end."""
    head, line = None, 1
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    while True:
        block = file.read(_BLOCK_BYTES)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            is_utf16 = line == 1 and error.object.startswith(
                (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            )
            kind = "UTF-16" if is_utf16 else "WINDOWS-1252"
            raise TarmacError(
                f"{path}:{line}: byte 0x{error.object[error.start]:02x} is no UTF-8",
                hint=f"Perhaps it is in {kind}: iconv -f {kind} -t UTF-8 {shlex.quote(str(path))}",
            ) from error
        line += text.count("\n")
        if head is None:
            head = text.partition("\n")[0]
        if not block:
            return head


def _separator(head: str) -> str:
    """Return what separates the columns: a comma, unless the first line has none but others."""
    return next((sign for sign in _SEPARATORS if sign in head), _SEPARATORS[0])


def _are_values(names: Sequence[str]) -> bool:
    """Whether what stands for names is a row of values: all numbers, and not counted upwards."""
    try:
        found = [float(name) for name in names]
    except ValueError:
        return False
    is_counted = all(name.isdecimal() for name in names)
    return not (is_counted and all(a < b for a, b in itertools.pairwise(found)))


def _classes(
    tables: Sequence[pa.Table], paths: Sequence[Path], columns: TableColumns
) -> list[Any] | None:
    """Return the values of the target in order, where they are classes."""
    import pyarrow.types as kinds  # noqa: PLC0415

    if len(columns.targets) != 1 or columns.as_values:
        return None
    (name,) = columns.targets
    kind = tables[0].schema.field(name).type
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    is_text = kinds.is_string(kind) or kinds.is_large_string(kind)
    if not (is_text or kinds.is_boolean(kind) or kinds.is_integer(kind)):
        return None
    found: set[Any] = set()
    for table, path in zip(tables, paths, strict=True):
        _check_whole(table, path, name)
        found |= set(table.column(name).unique().to_pylist())
    try:
        return sorted(found)
    except TypeError as error:
        raise TarmacError(f"{' and '.join(map(str, paths))} differ in type at {name!r}") from error


def _part(
    table: pa.Table,
    path: Path,
    features: Sequence[str],
    columns: TableColumns,
    classes: Sequence[Any] | None,
) -> Part:
    inputs = np.stack([_numbers(table, path, name) for name in features], axis=1)
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
    return Part(inputs=inputs, targets=targets, weights=weights)


def _numbers(table: pa.Table, path: Path, name: str) -> NDArray[np.float32]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.types as kinds  # noqa: PLC0415

    _check_whole(table, path, name)
    column = table.column(name)
    kind = column.type
    if not (
        kinds.is_integer(kind)
        or kinds.is_floating(kind)
        or kinds.is_boolean(kind)
        or kinds.is_decimal(kind)
    ):
        values = column.to_pylist()
        row = next((number for number, value in enumerate(values) if not _is_number(value)), 0)
        raise TarmacError(
            f"{path}: row {row + 1}, column {name!r}: {kind} such as {str(values[row])[:40]!r}, "
            "expected numbers",
            hint=f"Leave it out: --drop {shlex.quote(name)}\nor make numbers of it first.",
        )
    # Whole numbers that no float64 holds exactly are no more exact in float32.
    values = as_float32(column.cast(pa.float64(), safe=False).to_numpy())
    wrong = ~np.isfinite(values)
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
            hint=f"{column.null_count:,} are missing. Leave the rows out, fill them, or leave "
            f"out the column: --drop {shlex.quote(name)}",
        )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
