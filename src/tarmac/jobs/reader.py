"""Reader of job files in Tarmac's own format."""

from __future__ import annotations

import copy
import difflib
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from tarmac.documents import (
    Document,
    Path,
    Problem,
    parse_document,
    problems_of,
    read_document,
    refuse,
    show_path,
)
from tarmac.executors import executor_names, find_executor
from tarmac.jobs.foreign_keys import with_own_keys
from tarmac.tasks.graph import faults_of
from tarmac.tasks.model import Job

# Values that a program receives. They keep the file's text where YAML reads a number: version 1.10
# is not 1.1, and permissions 0755 are not 755.
_SEEN = re.compile(
    r"((tasks\[\d+\]|after_all)\.)?"
    r"((env|settings)\..*|command\[\d+\]|inputs\[\d+\]\.(mode|sha256)"
    r"|environment\.(python|user|build_env\..*|entrypoint\[\d+\])"
    r"|sweep\.((grid|zip|random\.parameters)\..*\[\d+\]|list\[\d+\]\..*))",
    re.DOTALL,
)


def read_job(path: pathlib.Path) -> Job:
    """Read a job file.

    Raises:
        RequestError: The file cannot be read, or is no job. The message lists each problem with its
            line and column, its path in the document, and the nearest valid name.
    """
    return job_of(read_document(path))


def parse_job(text: str, name: str = "job") -> Job:
    """Parse a job from text; see `read_job`."""
    return job_of(parse_document(text, name))


def job_of(document: Document) -> Job:
    """Build a job from a document; see `read_job`."""
    if not isinstance(document.value, dict):
        message = "is not a job, expected keys and their values, such as name and command"
        raise refuse(document, [Problem(document.place_of(()), "", message)])
    try:
        job = Job.model_validate(as_written(document), by_alias=True, by_name=False)
    except ValidationError as error:
        raise refuse(document, [*with_own_keys(problems_of(error, document, Job))]) from error
    faults = [
        Problem(
            document.place_within(fault.path, fault.part)
            if fault.part
            else document.place_of(fault.path),
            show_path(fault.path),
            fault.message,
            fault.hint,
        )
        for fault in faults_of(job)
    ]
    faults += _wrong_options(document)
    if faults:
        raise refuse(document, faults)
    return job


def _wrong_options(document: Document) -> Iterator[Problem]:
    """Yield invalid executor options of the job and its tasks, for every executor."""
    holders: list[Path] = [(), ("after_all",)]
    holders += [("tasks", number) for number in range(len(document.value.get("tasks", ())))]
    for holder in holders:
        values = document.value
        for part in holder:
            values = values.get(part) if isinstance(part, str) else values[part]
            values = values or {}
        for name, options in values.get("options", {}).items():
            yield from _wrong_of(document, (*holder, "options", name), options)


def _wrong_of(document: Document, path: Path, options: Any) -> Iterator[Problem]:
    name = str(path[-1])
    if name not in executor_names():
        # A file may name executors that this Tarmac does not know, but not a misspelt known one.
        near = difflib.get_close_matches(name, executor_names(), n=1)
        if near:
            place, hint = document.place_of(path), f"  did you mean {near[0]!r}?"
            yield Problem(place, show_path(path), "unknown executor", hint)
        return
    model = find_executor(name).options
    if model is None:
        return
    try:
        model.model_validate(options)
    except ValidationError as error:
        yield from problems_of(error, document, model, path)


def as_written(document: Document, path: Path = ()) -> Any:
    """Return a copy of a job's values, in which values for programs keep their text in the file.

    Args:
        document: Parsed job file, with the texts of its values.
        path: Keys and indexes of a mapping with a job's keys. Default: the whole document.
    """
    value = document.value
    for part in path:
        value = value[part]
    value = copy.deepcopy(value)
    for inner in _numbers_in(value):
        text = document.texts.get((*path, *inner))
        if text is None or not _SEEN.fullmatch(show_path(inner)):
            continue
        *outer, last = inner
        holder = value
        for part in outer:
            holder = holder[part]
        holder[last] = text
    return value


def _numbers_in(value: Any) -> list[Path]:
    """Return the paths of all numbers and booleans."""
    paths: list[Path] = []
    ahead: list[tuple[Path, Any]] = [((), value)]
    while ahead:
        path, part = ahead.pop()
        if isinstance(part, (int, float)):
            paths.append(path)
        elif isinstance(part, dict):
            ahead += [
                ((*path, key), item) for key, item in part.items() if not isinstance(item, str)
            ]
        elif isinstance(part, list):
            ahead += [
                ((*path, n), item) for n, item in enumerate(part) if not isinstance(item, str)
            ]
    return paths
