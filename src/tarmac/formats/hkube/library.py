"""Algorithms and pipelines by name, from files. HKube stores them in the cluster."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any

from tarmac.documents import Document, read_document
from tarmac.errors import RequestError
from tarmac.formats.hkube.fields import Path, definition_as_written, is_definition, is_pipeline

_SUFFIXES = (".json", ".yaml", ".yml")
# Definitions are small. Other files beside a pipeline may be data.
_MAX_FILES, _MAX_BYTES = 1_000, 2**20
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FROM_FILE = re.compile(r"(-r\s*)(\S.*)")
_MARKED = re.compile(
    rb"[\"']?(algorithmImage|image|nodes|tarmac|gitRepository|code|minHotWorkers)[\"']?\s*:"
)


@dataclasses.dataclass(frozen=True)
class Stored:
    """A definition or a pipeline in a file.

    Attributes:
        document: Document of the file that holds the definition or pipeline.
        path: Keys that lead to the definition or pipeline in the document.
        value: Definition or pipeline, as plain values.
    """

    document: Document
    path: Path
    value: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Library:
    """The algorithms and pipelines that a pipeline may name.

    Attributes:
        algorithms: Algorithm definitions, by the name in each definition.
        pipelines: Pipelines that have nodes, by the name in each pipeline.
    """

    algorithms: dict[str, Stored]
    pipelines: dict[str, Stored]


def library_of(documents: Sequence[Document]) -> Library:
    """Return the algorithms and pipelines in documents. Later documents override earlier ones.

    Relative paths in a definition start from its own folder. If that is not the last document's
    folder, they become absolute.
    """
    library = Library({}, {})
    home = FilePath(documents[-1].name).resolve().parent
    for original in documents:
        folder = FilePath(original.name).resolve().parent
        document = original if folder == home else _with_files_of(original, folder)
        for path, value in _parts_of(document.value):
            name = value.get("name")
            if not isinstance(name, str):
                continue
            if is_pipeline(value):
                if isinstance(value.get("nodes"), list):
                    library.pipelines[name] = Stored(document, path, value)
            elif is_definition(value):
                written = definition_as_written(document, path)
                library.algorithms[name] = Stored(document, path, written)
    return library


def _parts_of(value: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a document's possible definitions: itself, its elements, or a job's ``algorithms``."""
    if isinstance(value, dict) and isinstance(value.get("pipeline"), dict):
        parts = value.get("algorithms")
        start: Path = ("algorithms",)
    else:
        parts, start = value, ()
    if isinstance(parts, dict):
        yield start, parts
    elif isinstance(parts, list):
        for number, part in enumerate(parts):
            if isinstance(part, dict):
                yield (*start, number), part


def definitions_beside(path: FilePath, documents: Sequence[Document]) -> list[Document]:
    """Return the documents of a file's folder that define algorithms and pipelines.

    Files are skipped if they are large, unreadable or hold something else. A missing definition
    is reported at the place that names it.

    Args:
        path: Path of the file, which need not exist.
        documents: Documents already read, which are left out. The file's own document is last.
    """
    known = {FilePath(document.name).resolve() for document in documents}
    definitions: list[Document] = []
    for number, file in enumerate(_files_of(path.parent)):
        if number >= _MAX_FILES:
            break
        if file.resolve() in known:
            continue
        try:
            if file.stat().st_size > _MAX_BYTES or not _MARKED.search(file.read_bytes()):
                continue
            document = read_document(file)
        except (OSError, RequestError):
            continue
        if any(is_pipeline(part) or is_definition(part) for _, part in _parts_of(document.value)):
            definitions.append(document)
    return definitions


def _files_of(folder: FilePath) -> list[FilePath]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix.lower() in _SUFFIXES)
    except OSError:
        return []


def _with_files_of(document: Document, folder: FilePath) -> Document:
    """Return a document with a folder prepended to the relative paths in its definitions."""
    value = copy.deepcopy(document.value)
    for _, part in _parts_of(value):
        options = part.get("options")
        own = options.get("tarmac") if isinstance(options, dict) else None
        if not isinstance(own, dict):
            continue
        for entry in _list_of(own, "inputs"):
            source = entry.get("from") if isinstance(entry, dict) else None
            if isinstance(source, str) and not _URL.match(source):
                # An absolute path stays unchanged.
                entry["from"] = str(folder / source)
        lines = _list_of(own.get("environment"), "requirements")
        for number, line in enumerate(lines):
            match = _FROM_FILE.fullmatch(line) if isinstance(line, str) else None
            if match:
                lines[number] = f"{match[1]}{folder / match[2]}"
    return dataclasses.replace(document, value=value)


def _list_of(value: Any, key: str) -> list[Any]:
    part = value.get(key) if isinstance(value, dict) else None
    return part if isinstance(part, list) else []
