"""Merging of Batch Shipyard's files into one configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.documents import Document, Place
from tarmac.formats.shipyard.configuration import CREDENTIALS, Configuration
from tarmac.formats.shipyard.reading.dates import mark_dates


def merge(documents: Sequence[Document]) -> Configuration:
    """Merge files: mappings are combined, any other value is replaced by the last one.

    Args:
        documents: Documents to merge. A later document overrides an earlier one.
    """
    value: dict[str, Any] = {}
    places: dict[tuple[str | int, ...], tuple[str, Place]] = {}
    with_credentials = set()
    for document in documents:
        if isinstance(document.value, dict):
            _merge(value, mark_dates(document))
            if CREDENTIALS in document.value:
                with_credentials.add(document.name)
        # A value that only an earlier file has keeps its place there.
        places |= {path: (document.name, place) for path, place in document.places.items()}
    names = [document.name for document in documents]
    return Configuration(names, value, places, frozenset(with_credentials))


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _merge(below[key], value)
        else:
            below[key] = value
