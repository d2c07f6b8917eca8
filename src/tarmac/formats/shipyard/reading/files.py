"""Batch Shipyard's files as one configuration: found, read, and merged."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError
from tarmac.formats.shipyard.reading.dates import mark_dates
from tarmac.formats.shipyard.reading.properties import secret_names
from tarmac.jobs.foreign import Place, read_document, show_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from tarmac.jobs.foreign import Document

__all__ = [
    "Configuration",
    "find_jobs_files",
    "looks_like_shipyard",
    "merge",
    "read_part",
    "read_siblings",
]

_SUFFIXES = (".yaml", ".yml", ".json")
# What is beside a jobs file, and what is at the top of each.
_SIBLINGS = {
    "config": "batch_shipyard",
    "credentials": "credentials",
    "pool": "pool_specification",
}
_SECTIONS = ("job_specifications", "pool_specification", "batch_shipyard", "global_resources")

# What may be at the top of the files; of credentials, nothing but this is shown.
_CREDENTIALS = "credentials"


@dataclasses.dataclass(frozen=True)
class Configuration:
    """Several files as one.

    Attributes:
        names: Of the files, in the order in which later ones are over earlier ones.
        value: Plain values.
        places: From paths to the file and the place in it.
        with_credentials: Those of the files that hold any.
    """

    names: Sequence[str]
    value: dict[str, Any]
    places: Mapping[tuple[str | int, ...], tuple[str, Place]]
    with_credentials: frozenset[str] = frozenset()

    def show(self, path: Sequence[str | int]) -> str:
        """Return a path for a message; of what may be a credential, no more than that it is one."""
        if path[:1] == (_CREDENTIALS,):
            return _CREDENTIALS
        name, _ = self.place_of(path)
        is_hidden = len(path) == 1 and path[0] not in _SECTIONS and name in self.with_credentials
        return "" if is_hidden else show_path(path)

    def place_of(self, path: Sequence[str | int]) -> tuple[str, Place]:
        """Return the file and the place of a value, or of what would hold it."""
        for length in range(len(path), 0, -1):
            found = self.places.get(tuple(path[:length]))
            if found is not None:
                return found
        return self.names[-1], Place(1, 1)


def looks_like_shipyard(value: Any) -> bool:
    """Whether a document is one of Batch Shipyard's files."""
    if not isinstance(value, dict):
        return False
    holds_credentials = isinstance(value.get("credentials"), dict) and "name" not in value
    return any(section in value for section in _SECTIONS) or holds_credentials


def find_jobs_files(folder: Path) -> list[Path]:
    """Return the jobs file of a folder, or of its ``config`` folder.

    Raises:
        RequestError: It has none, or several of which none is called ``jobs``.
    """
    for place in (folder, folder / "config"):
        named = next((p for s in _SUFFIXES if (p := place / f"jobs{s}").is_file()), None)
        if named is not None:
            return [named]
        found = sorted(
            path for path in place.glob("jobs[-_.]*") if path.suffix in _SUFFIXES and path.is_file()
        )
        if len(found) > 1:
            # One that lists what another makes can only be read when that has ended.
            commands = "\n".join(f"tarmac run {path}" for path in found)
            raise RequestError(
                f"{place} has {len(found)} jobs files, and their order is not said",
                hint=f"Run each by itself, in the order that you need:\n{commands}",
            )
        if found:
            return found
    raise RequestError(
        f"{folder}: no jobs file is there: jobs.yaml, jobs.yml or jobs.json",
        hint="A folder holds Batch Shipyard's files, or has a folder config that does.",
    )


def read_siblings(jobs_file: Path, sections: Iterable[str]) -> list[Document]:
    """Read config, credentials and pool files beside a jobs file.

    Args:
        jobs_file: The jobs file.
        sections: What has been read already, and is not looked for.

    Raises:
        RequestError: One cannot be read, or holds no mapping.
    """
    known = set(sections)
    documents = []
    for name, section in _SIBLINGS.items():
        paths = (jobs_file.parent / f"{name}{suffix}" for suffix in _SUFFIXES)
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            continue
        document = read_part(path)
        if not isinstance(document.value, dict):
            # Nothing of it: it may be a credential.
            raise RequestError(f"{path}:1:1: expected names and their values, such as {section}:")
        if not known & document.value.keys():
            documents.append(document)
    return documents


def read_part(path: Path) -> Document:
    """Read one of the files; no error has part of a secret.

    Raises:
        RequestError: It cannot be read, or is called credentials and holds none.
    """
    try:
        document = read_document(path)
    except RequestError as error:
        if not _may_hold_secrets(path):
            raise
        # The words on a syntax error may hold what is on the line.
        place = re.match(re.escape(str(path)) + r"(:\d+:\d+)?", error.message)
        where = place[0] if place is not None else str(path)
        raise RequestError(
            f"{where}: cannot be read as YAML or JSON",
            hint="What is there is not shown, for the file may hold secrets.",
        ) from None
    if path.stem == _CREDENTIALS and not looks_like_shipyard(document.value):
        raise RequestError(f"{path}:1:1: expected {_CREDENTIALS}: with what is secret below it")
    return document


def _may_hold_secrets(path: Path) -> bool:
    if path.stem == _CREDENTIALS:
        return True
    try:
        content = path.read_bytes()
    except OSError:
        return False
    names = "|".join([_CREDENTIALS, *secret_names()])
    return re.search(rf"\b(?:{names})[\"']?\s*:".encode(), content) is not None


def merge(documents: Sequence[Document]) -> Configuration:
    """Merge files: mappings one into the other, anything else by what comes last.

    Args:
        documents: In order.
    """
    value: dict[str, Any] = {}
    places: dict[tuple[str | int, ...], tuple[str, Place]] = {}
    with_credentials = set()
    for document in documents:
        if isinstance(document.value, dict):
            _merge(value, mark_dates(document))
            if _CREDENTIALS in document.value:
                with_credentials.add(document.name)
        # What an earlier file has here and this one has not is still where it was.
        places |= {path: (document.name, place) for path, place in document.places.items()}
    names = [document.name for document in documents]
    return Configuration(names, value, places, frozenset(with_credentials))


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _merge(below[key], value)
        else:
            below[key] = value
