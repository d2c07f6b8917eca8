"""Requests for a run, in the forms of HKube's API, converted to pipelines.

A request is a pipeline (exec/raw), a stored pipeline's name with changes (exec/stored), or an
algorithm's name with its input (exec/algorithm). Source: kube-HPC/hkube at 261d3d06,
core/api-server/lib/service/execution.js.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tarmac.documents import Document, Place
from tarmac.errors import RequestError, unknown_name
from tarmac.formats.hkube.fields import Path, is_algorithm_run, is_definition, is_pipeline

# Keeps the names of files beside the task's directory short enough for file systems.
MAX_TASK_ID_BYTES = 200

# Keys of an algorithm's input as an object, from HKube's `initialize` and exec/algorithm.
_KEYS = {
    "input": "a list, what the algorithm gets",
    "taskId": "the task's name: another run with the same name resumes the task",
    "name": "the algorithm's",
    "debug": "whether a developer's process does the task",
}


class InputError(RequestError):
    """The error for an invalid input, with the path of the fault.

    Args:
        message: Description of the fault in the input, for the user.
        path: Keys that lead to the fault in the input.
        hint: Text for the user with the next step. Default: none.
    """

    def __init__(self, message: str, path: Path, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


def run_of_algorithm(
    document: Document, path: Path, value: dict[str, Any]
) -> tuple[Document, dict[str, Any]]:
    """Return a pipeline with one node that runs an algorithm.

    Args:
        document: Document that holds the request.
        path: Keys that lead to the request in the document.
        value: Request with the algorithm's ``name``, and optional ``input``, ``taskId`` and
            ``debug``.

    Returns:
        A document with the pipeline alone and the places of its values, and the pipeline.
    """
    body = _of_one_node(value)
    places: dict[Path, Place] = {(): document.place_of(path)}
    places["nodes", 0, "algorithmName"] = document.place_of((*path, "name"))
    start = (*path, "input")
    for old, place in document.places.items():
        if old[: len(start)] == start:
            places["nodes", 0, *old[len(path) :]] = place
    return Document(document.name, body, places), body


def _of_one_node(value: Mapping[str, Any]) -> dict[str, Any]:
    name = value.get("name")
    node = {"nodeName": name, "algorithmName": name, "input": value.get("input", [])}
    if value.get("taskId") is not None:
        node["taskId"] = value["taskId"]
    if value.get("debug"):
        node["kind"] = "debug"
    return {"name": name.replace("\\", "-") if isinstance(name, str) else name, "nodes": [node]}


def task_id_fault(value: Any) -> str | None:
    """Return why a task's name cannot be its directory's name, or None if it can."""
    if not isinstance(value, str):
        return f"is {value!r:.80}, expected a text"
    if not value or value.startswith(".") or "/" in value or not value.isprintable():
        return f"is {value!r:.80}, which cannot be a directory's name"
    if len(value.encode(errors="replace")) > MAX_TASK_ID_BYTES:
        return f"has {len(value)} letters, more than a directory's name of {MAX_TASK_ID_BYTES}"
    return None


def merged_over(stored: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Return a stored pipeline with a request's changes; ``flowInput`` is replaced as a whole."""
    body: dict[str, Any] = merged(stored, value)
    if "flowInput" in value:
        body["flowInput"] = value["flowInput"]
    return body


def merged(old: Any, new: Any) -> Any:
    """Return a value merged over another as in lodash: mappings by key, lists by index.

    Example:
        >>> merged({"a": {"b": 1}, "c": [1, 2]}, {"a": {"d": 2}, "c": [3]})
        {'a': {'b': 1, 'd': 2}, 'c': [3, 2]}
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: merged(old.get(key), part) for key, part in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        return [*map(merged, old, new), *old[len(new) :], *new[len(old) :]]
    return new


def takes_flow_input(value: Any) -> bool:
    """Return whether a document's input is a ``flowInput``, rather than a list."""
    if isinstance(value, dict) and isinstance(value.get("pipeline"), dict):
        return True
    parts = value if isinstance(value, list) else [value]
    return any(is_pipeline(part) for part in parts)


def with_input(document: Document, input_data: Any) -> Document:
    """Return a document whose pipeline or algorithm runs with an input.

    Args:
        document: Document with one pipeline, one algorithm run or one algorithm definition, or with
            a Tarmac job that has a pipeline.
        input_data: The ``flowInput`` of the pipeline, or the algorithm's input: a list, or an
            object with the list as its ``input``, and optional ``taskId``, ``name`` and ``debug``.

    Raises:
        RequestError: The document holds no pipeline or algorithm, or several of them.
        InputError: The input does not have the expected form.
    """
    value = document.value
    if isinstance(value, dict) and isinstance(value.get("pipeline"), dict):
        pipeline = value["pipeline"] | {"flowInput": _flow_input(input_data)}
        return _replaced(document, value | {"pipeline": pipeline}, ("pipeline", "flowInput"))
    parts = value if isinstance(value, list) else [value]
    prefixes: list[Path] = [(number,) for number in range(len(parts))]
    if not isinstance(value, list):
        prefixes = [()]
    for kind, change in (
        (is_pipeline, _with_flow_input),
        (is_algorithm_run, _with_list),
        (is_definition, _with_run),
    ):
        positions = [number for number, part in enumerate(parts) if kind(part)]
        if len(positions) > 1:
            raise RequestError(
                f"{document.name} holds {len(positions)} of them, and an input is for one"
            )
        if positions:
            return change(document, prefixes[positions[0]], parts[positions[0]], input_data)
    raise RequestError(
        f"{document.name} holds no algorithm and no pipeline of HKube's, which an input is for"
    )


def _flow_input(input_data: Any) -> Any:
    if input_data is not None and not isinstance(input_data, dict):
        raise RequestError("a pipeline's input, its flowInput, is a mapping: {...}")
    return input_data


def _run(input_data: Any, name: Any) -> dict[str, Any]:
    """Return the request to run an algorithm with an input.

    Args:
        input_data: Input from the user: a list, or an object with ``input`` and optional
            ``taskId``.
        name: Name of the algorithm to run. An input for another algorithm is refused.
    """
    form = "An algorithm's input is a list, [...], or an object, {input: [...], taskId: ID}."
    if isinstance(input_data, list):
        return {"name": name, "input": input_data}
    if not isinstance(input_data, dict):
        raise InputError("an algorithm's input is a list of its arguments: [...]", (), hint=form)
    for key in input_data:
        if key not in _KEYS:
            error = unknown_name("key of an algorithm's input", key, _KEYS)
            raise InputError(error.message, (key,), hint=f"{form}\n{error.hint}")
    run = {key: value for key, value in input_data.items() if value is not None}
    if not isinstance(run.get("input", []), list):
        raise InputError("input is not a list", ("input",), hint=form)
    fault = task_id_fault(run.get("taskId", "none"))
    if fault is not None:
        raise InputError(f"taskId {fault}", ("taskId",))
    if run.get("name", name) != name:
        raise InputError(f"the input is for algorithm {run['name']!r}, not {name!r}", ("name",))
    return {"name": name, "input": [], **run}


def _with_flow_input(document: Document, path: Path, part: Any, input_data: Any) -> Document:
    return _put(document, path, part | {"flowInput": _flow_input(input_data)}, "flowInput")


def _with_list(document: Document, path: Path, part: Any, input_data: Any) -> Document:
    return _put(document, path, part | _run(input_data, part.get("name")), "input")


def _with_run(document: Document, path: Path, part: Any, input_data: Any) -> Document:
    """Add a run of the algorithm to the document with its definition."""
    run = _of_one_node(_run(input_data, part.get("name")))
    if path:
        return dataclasses.replace(document, value=[*document.value, run])
    places = {(0, *old): place for old, place in document.places.items()}
    places[()] = document.place_of(())
    places[1, "name"] = document.place_of(("name",))
    return dataclasses.replace(
        document,
        value=[document.value, run],
        places=places,
        texts={(0, *old): text for old, text in document.texts.items()},
        dates={(0, *old) for old in document.dates},
    )


def _put(document: Document, path: Path, part: Any, key: str) -> Document:
    value = part
    if path:
        value = [*document.value]
        value[int(path[0])] = part
    return _replaced(document, value, (*path, key))


def _replaced(document: Document, value: Any, path: Path) -> Document:
    """Return a document with another value, and without the places below a path."""
    size = len(path)
    return dataclasses.replace(
        document,
        value=value,
        places={old: place for old, place in document.places.items() if old[:size] != path},
        texts={old: text for old, text in document.texts.items() if old[:size] != path},
        dates={old for old in document.dates if old[:size] != path},
    )
