"""Records: JSON files of a published layout, with its version number.

A reader reads every version up to its own, and refuses newer ones; CONTRIBUTING.md has the rule.
"""

from __future__ import annotations

import reprlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ValidationError

from tarmac.distribution import upgrade_hint
from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.files.atomic import StorageError, read_errors, read_regular
from tarmac.files.parsing import parse_json


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("its year is out of range") from error


# In UTC, so that times of all records can be compared and shown.
Moment = Annotated[datetime, AfterValidator(_in_utc)]

_Model = TypeVar("_Model", bound=BaseModel)

# Pydantic writes at most 255 levels; no record needs a tenth.
_MAX_DEPTH = 100


def read_versioned(path: Path, model: type[_Model], version: int, kind: str) -> _Model:
    """Read a record with a ``schema_version``.

    Args:
        path: JSON file of the record, with a ``schema_version``.
        model: Pydantic model that the record is validated against.
        version: Newest schema version that this Tarmac reads. Versions start at 1.
        kind: Name of a directory with such a file, for the message: ``run``.

    Raises:
        RequestError: The file is missing, or a newer Tarmac wrote it.
        TarmacError: The file is damaged.
    """
    try:
        with read_errors(path):
            text = read_regular(path)
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            raise RequestError(
                f"{path.parent} is not a {kind}: it has no {path.name}"
            ) from error.__cause__
        raise
    try:
        content = parse_json(text)
        _check_depth(content)
    except ValueError as error:
        raise damaged_record(path, str(error)) from error
    number = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        reason = f"schema_version is {reprlib.repr(number)}, expected a number from 1 to {version}"
        raise damaged_record(path, reason)
    if number > version:
        raise RequestError(
            f"{path} was written by a newer Tarmac (schema {reprlib.repr(number)}, this one reads "
            f"up to {version})",
            hint=upgrade_hint(),
        )
    return validated(path, model, content)


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if level:
        raise ValueError("it is nested too deeply")


def validated(path: Path, model: type[_Model], content: object, within: str = "") -> _Model:
    """Validate a part of a record as a model.

    Args:
        path: File of the record, for the error message.
        model: Pydantic model that the part is validated against.
        content: Parsed JSON value of the part.
        within: Name of the part in the file; empty for all of it.

    Raises:
        TarmacError: The part is damaged.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, (*filter(None, [within]), *first["loc"])))
        raise damaged_record(path, f"{place}: {first['msg']}") from error


def damaged_record(path: Path, reason: str) -> TarmacError:
    """Return the error for a damaged record, whose content is nowhere else.

    Args:
        path: File of the damaged record.
        reason: Description of the damage.
    """
    return TarmacError(
        f"{path} is damaged: {reason}",
        hint=f"Restore a copy of it; see what is left there: ls {quoted(path.parent)}",
    )
