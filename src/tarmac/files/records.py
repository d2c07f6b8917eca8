"""Records: JSON files of a published layout, with a number that says which.

A reader reads every version up to its own, and refuses newer ones; CONTRIBUTING.md has the rule.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from tarmac.distribution import upgrade_hint
from tarmac.errors import RequestError, TarmacError
from tarmac.files.atomic import read_errors

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_versioned"]

_Record = TypeVar("_Record", bound=BaseModel)


def read_versioned(path: Path, model: type[_Record], version: int, kind: str) -> _Record:
    """Read a record with a ``schema_version``.

    Args:
        path: The file.
        model: What it holds.
        version: The newest that this Tarmac reads.
        kind: What a directory with such a file is, for the message: ``run``.

    Raises:
        RequestError: There is none, or it was written by a newer Tarmac.
        TarmacError: It is damaged.
    """
    if not path.exists():
        raise RequestError(f"{path.parent} is not a {kind}: it has no {path.name}")
    try:
        with read_errors(path):
            content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TarmacError(f"{path} is damaged: {error}") from error
    found = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise TarmacError(
            f"{path} is damaged: schema_version is {found!r}, expected a number from 1 to {version}"
        )
    if found > version:
        raise RequestError(
            f"{path} was written by a newer Tarmac (schema {found}, this one reads up to "
            f"{version})",
            hint=upgrade_hint(),
        )
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise TarmacError(f"{path} is damaged: {place}: {first['msg']}") from error
