"""Read datasets from CSV and Parquet tables with Apache Arrow."""

from __future__ import annotations

import codecs
import gzip
import itertools
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tarmac.data.own.parts import Parts, cut_off_test
from tarmac.data.own.table_values import (
    TableColumns,
    check_inputs,
    classes_of,
    filled,
    levels_of,
    note_on_counting,
    part_of,
)
from tarmac.distribution import explained_imports
from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.files import read_errors

if TYPE_CHECKING:
    import pyarrow as pa

_TEXTS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_SEPARATORS = (",", ";", "\t")
_BLOCK_BYTES = 2**20


def read_tables(
    train: Path, test: Path | None, columns: TableColumns, *, test_share: float
) -> Parts:
    """Read a dataset from tables; inputs are float32 ``[rows, columns]``.

    Columns without another purpose are inputs. A target of texts, bools or whole numbers is a
    class; any other target is a value.

    Args:
        train: Path of a ``.csv``, ``.tsv``, ``.csv.gz``, ``.tsv.gz`` or ``.parquet`` file.
        test: Path of a table with the same columns. None: test rows are split off from ``train``.
        columns: Purpose of the columns: targets, weights, dropped, categorical.
        test_share: Share of the rows to score if there is no ``test``. Above 0, below 1.

    Raises:
        MissingExtraError: pyarrow is not installed.
        RequestError: The table lacks a named column, or has no column left for the inputs.
        TarmacError: A table cannot be read, or a value is not a number. The message names the row
            and the column.
    """
    paths = [path for path in (train, test) if path is not None]
    tables = [_read(path) for path in paths]
    columns = columns.named_in(tables[0].column_names)
    used = {*columns.targets, *columns.dropped, columns.weights}
    names = [name for name in tables[0].column_names if name not in used]
    for path, table in zip(paths[1:], tables[1:], strict=True):
        if set(table.column_names) != set(tables[0].column_names):
            differing = sorted(set(table.column_names) ^ set(tables[0].column_names))
            raise TarmacError(f"{path} and {train} differ in columns: {', '.join(differing)}")
    classes, notes = classes_of(tables, paths, columns)
    plain = [name for name in names if name not in columns.categorical]
    for path, table in zip(paths, tables, strict=True):
        check_inputs(table, path, plain, columns)
        notes += tuple(note for name in plain for note in note_on_counting(table, name))
    inputs = {
        name: levels_of(tables, paths, name) if name in columns.categorical else None
        for name in names
    }
    features = tuple(
        feature
        for name, levels in inputs.items()
        for feature in ([name] if levels is None else [f"{name}={level}" for level in levels])
    )
    if not features:
        raise RequestError(f"{train} has no column left for the inputs")
    if len(set(features)) < len(features):
        doubled = next(name for name in features if features.count(name) > 1)
        raise RequestError(f"{train}: two columns of the inputs would be named {doubled!r}")
    read = [
        part_of(table, path, inputs, columns, classes)
        for table, path in zip(tables, paths, strict=True)
    ]
    if len(read) == 1:
        learnt, scored = cut_off_test(len(read[0].inputs), test_share)
        read = [read[0].taken(learnt), read[0].taken(scored)]
    if columns.fill is not None:
        read = filled(read, columns.fill, features, train)
    return Parts(
        train=read[0],
        test=read[1],
        classes=None if classes is None else tuple(map(str, classes)),
        features=features,
        notes=tuple(dict.fromkeys(notes)),
    )


def is_table(path: Path) -> bool:
    """Return whether the name of a path is that of a table."""
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
            # Row numbers are known only with a single thread.
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
    """Return the first line; raise a TarmacError if any part of the file is not UTF-8."""
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
                f"{path}:{line}: byte 0x{error.object[error.start]:02x} is not UTF-8",
                hint=f"Perhaps it is in {kind}:\n"
                f"iconv -f {kind} -t UTF-8 {quoted(path)} > converted.csv",
            ) from error
        line += text.count("\n")
        if head is None:
            head = text.partition("\n")[0]
        if not block:
            return head


def _separator(head: str) -> str:
    """Return the first of comma, semicolon and tab that the first line has; default comma."""
    return next((sign for sign in _SEPARATORS if sign in head), _SEPARATORS[0])


def _are_values(names: Sequence[str]) -> bool:
    """Return whether the column names are values: all numbers, and not counting upwards."""
    try:
        values = [float(name) for name in names]
    except ValueError:
        return False
    is_counted = all(name.isdecimal() for name in names)
    return not (is_counted and all(a < b for a, b in itertools.pairwise(values)))
