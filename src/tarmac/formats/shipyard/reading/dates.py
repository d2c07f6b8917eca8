"""Dates without quotes, which Batch Shipyard does not accept as text."""

from __future__ import annotations

from typing import Any

from tarmac.documents import Document, Path


class Date(str):
    """A date as written in the file."""

    __slots__ = ()


def mark_dates(document: Document) -> Any:
    """Return a document's value with its unquoted dates as `Date`."""
    return _marked(document, document.value, ()) if document.dates else document.value


def _marked(document: Document, value: Any, path: Path) -> Any:
    if isinstance(value, dict):
        return {key: _marked(document, part, (*path, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [_marked(document, part, (*path, number)) for number, part in enumerate(value)]
    return Date(value) if path in document.dates else value
