"""Batch Shipyard's files: how to recognize, find and load them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tarmac.documents import Document, parse_document, read_text
from tarmac.errors import RequestError, quoted
from tarmac.formats.shipyard.configuration import CREDENTIALS, SECTIONS
from tarmac.formats.shipyard.reading.properties import secret_names

_SUFFIXES = (".yaml", ".yml", ".json")
# Names of the files beside a jobs file, with the top-level key of each.
_SIBLINGS = {
    "config": "batch_shipyard",
    "credentials": "credentials",
    "pool": "pool_specification",
}


def looks_like_shipyard(value: Any) -> bool:
    """Return whether a document is one of Batch Shipyard's files."""
    if not isinstance(value, dict):
        return False
    holds_credentials = isinstance(value.get("credentials"), dict) and "name" not in value
    return any(section in value for section in SECTIONS) or holds_credentials


def find_jobs_files(folder: Path) -> list[Path]:
    """Return the jobs file of a folder, or of its ``config`` folder.

    Raises:
        RequestError: The folder has no jobs file, or several and none is called ``jobs``.
    """
    for place in (folder, folder / "config"):
        named = next((p for s in _SUFFIXES if (p := place / f"jobs{s}").is_file()), None)
        if named is not None:
            return [named]
        paths = sorted(
            path for path in place.glob("jobs[-_.]*") if path.suffix in _SUFFIXES and path.is_file()
        )
        if len(paths) > 1:
            # A jobs file that lists another one's outputs can be read only after that has ended.
            names = "\n".join(map(quoted, paths))
            raise RequestError(
                f"{place} has {len(paths)} jobs files, and their order is unknown",
                hint=f"Name each by itself, in the order that you need:\n{names}",
            )
        if paths:
            return paths
    raise RequestError(
        f"{folder}: no jobs file is there: jobs.yaml, jobs.yml or jobs.json",
        hint="A folder holds Batch Shipyard's files, or has a folder config that does.",
    )


def is_part(value: Any) -> bool:
    """Return whether a document is part of a configuration but not its jobs file."""
    return looks_like_shipyard(value) and "job_specifications" not in value


def read_siblings(jobs_file: Path, documents: Iterable[Document]) -> list[Document]:
    """Read config, credentials and pool files beside a jobs file.

    Args:
        jobs_file: Path of the jobs file. Only its directory is searched.
        documents: Documents that are already read. Their sections are skipped.

    Raises:
        RequestError: A file cannot be read, or holds no mapping.
    """
    known = {section for document in documents for section in document.value}
    siblings = []
    for name, section in _SIBLINGS.items():
        paths = (jobs_file.parent / f"{name}{suffix}" for suffix in _SUFFIXES)
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            continue
        text = read_text(path)
        document = load(path, text) or parse_document(text, str(path))
        if not isinstance(document.value, dict):
            # Show no part of the value: it may be a credential.
            raise RequestError(f"{path}:1:1: expected names and their values, such as {section}:")
        if not known & document.value.keys():
            siblings.append(document)
    return siblings


def load(path: Path, text: str) -> Document | None:
    """Read a file that may hold secrets, without quoting it in errors; None for other files.

    Args:
        path: Path of the file, which decides with ``text`` whether it may hold secrets.
        text: Content of the file, in YAML or JSON.

    Raises:
        RequestError: The file cannot be read, or is called credentials and holds none.
    """
    if not _may_hold_secrets(path, text):
        return None
    try:
        document = parse_document(text, str(path))
    except RequestError as error:
        # The message of a syntax error may quote the line.
        place = re.match(re.escape(str(path)) + r"(:\d+:\d+)?", error.message)
        where = place[0] if place is not None else str(path)
        raise RequestError(
            f"{where}: cannot be read as YAML or JSON",
            hint="Its content is not shown, because the file may hold secrets.",
        ) from None
    if path.stem == CREDENTIALS and not looks_like_shipyard(document.value):
        raise RequestError(f"{path}:1:1: expected {CREDENTIALS}: with what is secret below it")
    return document


def _may_hold_secrets(path: Path, text: str) -> bool:
    if path.stem == CREDENTIALS:
        return True
    names = "|".join([CREDENTIALS, *secret_names()])
    return re.search(rf"\b(?:{names})[\"']?\s*:", text) is not None
