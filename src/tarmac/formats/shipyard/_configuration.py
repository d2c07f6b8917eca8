"""Batch Shipyard's files as one configuration: found, read by YAML 1.2's rules, and merged."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError
from tarmac.jobs.documents import Place, read_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from tarmac.jobs.documents import Document

__all__ = [
    "Configuration",
    "find_jobs_files",
    "looks_like_shipyard",
    "merge",
    "read_part",
    "read_siblings",
]

_SUFFIXES = (".yaml", ".yml", ".json")
_SIBLINGS = ("config", "credentials", "pool")
_SECTIONS = ("job_specifications", "pool_specification", "batch_shipyard", "global_resources")

_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9][0-9_]*")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


@dataclasses.dataclass(frozen=True)
class Configuration:
    """Several files as one.

    Attributes:
        names: Of the files, in the order in which later ones are over earlier ones.
        value: Plain values.
        places: From paths to the file and the place in it.
    """

    names: Sequence[str]
    value: dict[str, Any]
    places: Mapping[tuple[str | int, ...], tuple[str, Place]]

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
            raise RequestError(
                f"{place} has {len(found)} jobs files, and their order is not said",
                hint=f"tarmac run {' '.join(map(str, found))}  (in the order that you need)",
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
    """
    known = set(sections)
    documents = []
    for name in _SIBLINGS:
        paths = (jobs_file.parent / f"{name}{suffix}" for suffix in _SUFFIXES)
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            continue
        document = read_part(path)
        if isinstance(document.value, dict) and not known & document.value.keys():
            documents.append(document)
    return documents


def read_part(path: Path) -> Document:
    """Read one of the files; of credentials, an error has no part.

    Raises:
        RequestError: It cannot be read.
    """
    if path.stem != "credentials":
        return read_document(path)
    try:
        return read_document(path)
    except RequestError as error:
        # The words on a syntax error may hold what is on the line.
        place = re.match(re.escape(str(path)) + r"(:\d+:\d+)?", error.message)
        where = place[0] if place is not None else str(path)
        raise RequestError(f"{where}: cannot be read as YAML or JSON") from None


def merge(documents: Sequence[Document]) -> Configuration:
    """Merge files: mappings one into the other, anything else by what comes last.

    Args:
        documents: In order; each is read by YAML 1.2, where ``12:00:00`` and ``yes`` are texts.
    """
    value: dict[str, Any] = {}
    places: dict[tuple[str | int, ...], tuple[str, Place]] = {}
    for document in documents:
        if isinstance(document.value, dict):
            _merge(value, _read_again(document, document.value, ()))
        # What an earlier file has here and this one has not is still where it was.
        places |= {path: (document.name, place) for path, place in document.places.items()}
    return Configuration([document.name for document in documents], value, places)


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _merge(below[key], value)
        else:
            below[key] = value


def _read_again(document: Document, value: Any, path: tuple[str | int, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _read_again(document, part, (*path, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [_read_again(document, part, (*path, n)) for n, part in enumerate(value)]
    text = document.texts.get(path)
    if text is None or not isinstance(value, (bool, int, float)):
        return value
    return _scalar(text)


def _scalar(text: str) -> Any:
    """Read a plain scalar as YAML 1.2's core schema does, and a number as Python does."""
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text):
        return int(text.replace("_", ""))
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text.replace(".inf", "inf").replace(".nan", "nan").lower().lstrip("."))
    return text
