"""Fields of a definition and their paths, in the forms of HKube's API and of hkubectl."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

from tarmac.documents import Document, show_path
from tarmac.formats.hkube.definition import Definition
from tarmac.jobs import Job, as_written

Path = tuple[str | int, ...]

NAME = "hkube"
LEAST_MEMORY_MI = 4

# Fields of a definition that a job has too.
MEANT = ("name", "algorithmImage", "cpu", "mem", "gpu", "algorithmEnv")
KNOWN = tuple(field.alias or name for name, field in Definition.model_fields.items())

# Keys that only HKube's definitions have, and keys that only Tarmac's jobs have.
_OWN = frozenset(KNOWN) - Job.model_fields.keys() | {"code"}
_NOT_OWN = Job.model_fields.keys() - {*KNOWN, "resources"}
_SURE = frozenset(("algorithmImage", "algorithmEnv", "workerEnv", "minHotWorkers", "gitRepository"))

_OF_PIPELINES = frozenset(("experimentName", "streaming", "triggers", "webhooks"))

# Paths in hkubectl's form, with the keys of HKube's API. The API's own key takes precedence.
_ELSEWHERE: dict[Path, str] = {
    ("image",): "algorithmImage",
    ("image", "algorithmImage"): "algorithmImage",
    ("resources", "cpu"): "cpu",
    ("resources", "gpu"): "gpu",
    ("resources", "mem"): "mem",
    ("code", "entryPoint"): "entryPoint",
}
_HOLDERS = ("image", "resources", "code")


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a definition: its value and its path."""

    value: Any
    path: Path


def looks_like_hkube(value: Any) -> bool:
    """Return whether a document holds HKube's algorithm definitions, pipelines or run requests."""
    parts = value if isinstance(value, list) else [value]
    return any(is_pipeline(part) or is_algorithm_run(part) or is_definition(part) for part in parts)


def is_pipeline(value: Any) -> bool:
    """Return whether a document is a pipeline, or a request to run a stored one with changes."""
    if not isinstance(value, dict) or "command" in value:
        return False
    if isinstance(value.get("nodes"), list) or "flowInput" in value:
        return True
    return bool(_OF_PIPELINES & value.keys()) and not (_SURE | _NOT_OWN) & value.keys()


def is_algorithm_run(value: Any) -> bool:
    """Return whether a document requests a run of one algorithm, by its name."""
    return (
        isinstance(value, dict)
        and {"name", "input"} <= value.keys()
        and value.keys() <= {"name", "input", "debug", "taskId"}
    )


def is_definition(value: Any) -> bool:
    """Return whether a document is an algorithm definition."""
    if not isinstance(value, dict):
        return False
    if _SURE & value.keys():
        return True
    resources = value.get("resources")
    has_own = (
        bool(_OWN & value.keys())
        or ("image" in value and isinstance(resources, dict))
        or (isinstance(resources, dict) and bool({"cpu", "mem", "gpu"} & resources.keys()))
        or _are_of_an_algorithm(value.get("options"))
    )
    return has_own and not _NOT_OWN & value.keys()


def _are_of_an_algorithm(options: Any) -> bool:
    """Return whether options are an algorithm's. A job's options map executors to mappings."""
    if not isinstance(options, dict):
        return False
    return "tarmac" in options or not all(isinstance(part, dict) for part in options.values())


def flatten(definition: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[str, Field]]:
    """Yield a definition's fields, also of hkubectl's form, by their names in HKube's API."""
    for key, value in definition.items():
        if key not in _HOLDERS or not isinstance(value, dict):
            name = _elsewhere((key,), definition)
            yield name, Field(value, (*path, key))
            continue
        for inner, part in value.items():
            yield _elsewhere((key, inner), definition), Field(part, (*path, key, inner))


def _elsewhere(path: Path, definition: Mapping[str, Any]) -> str:
    name = _ELSEWHERE.get(path)
    return show_path(path) if name is None or name in definition else name


def definition_as_written(document: Document, path: Path) -> Any:
    """Return a definition where values of ``options.tarmac`` for programs are texts as written.

    Args:
        document: Document that holds the definition.
        path: Keys that lead to the definition in the document.
    """
    value = document.value
    for part in path:
        value = value[part]
    options = value.get("options") if isinstance(value, dict) else None
    if not isinstance(options, dict) or not isinstance(options.get("tarmac"), dict):
        return value
    own = as_written(document, (*path, "options", "tarmac"))
    return value | {"options": options | {"tarmac": own}}


def message(error: Any) -> str:
    """Return the message for one of Pydantic's errors."""
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "extra_forbidden":
        return "unknown key"
    message = str(error["msg"]).removeprefix("Value error, ")
    value = error.get("input")
    if isinstance(value, (str, int, float, bool)) or value is None:
        return f"{reprlib.repr(value)}: {message}"
    return message
