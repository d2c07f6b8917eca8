"""Changes to single values of a document."""

from __future__ import annotations

import copy
import dataclasses

from tarmac.documents.document import Document, show_path
from tarmac.documents.parsing import parse_document
from tarmac.errors import RequestError


def change_document(document: Document, key: str, text: str) -> Document:
    """Return a document with one value changed.

    Args:
        document: Document to start from, which stays unchanged.
        key: Keys and indices from 0, separated by dots, such as ``tasks.0.resources.gpus``. Missing
            mappings on the way are created, missing elements of lists are not.
        text: New value, as written in a file. Empty for None.

    Raises:
        RequestError: The key leads to no mapping or list element, or the text is no value.
    """
    new = parse_document(text, f"{key}={text}") if text else Document("", "")
    value = copy.deepcopy(document.value)
    path: list[str | int] = []
    holder, parts = value, key.split(".")
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        at: str | int = part
        if isinstance(holder, list):
            if not part.isdecimal() or len(part) > len(str(len(holder))):
                at = len(holder)
            else:
                at = int(part)
            if at >= len(holder):
                has = f"has {len(holder)} parts, expected one's number from 0"
                raise RequestError(f"{key}: {show_path(path)} {has}, not {part!r}")
        elif not isinstance(holder, dict):
            raise RequestError(f"{key}: {part} is in no mapping and no list")
        path.append(at)
        if is_last:
            holder[at] = new.value
        elif isinstance(holder, dict):
            holder = holder.setdefault(at, {})
        else:
            holder = holder[at]
    where = tuple(path)
    texts = {
        old: value_text for old, value_text in document.texts.items() if old[: len(where)] != where
    }
    texts |= {(*where, *inner): value_text for inner, value_text in new.texts.items()}
    dates = {old for old in document.dates if old[: len(where)] != where}
    dates |= {(*where, *inner) for inner in new.dates}
    return dataclasses.replace(document, value=value, texts=texts, dates=dates)
