"""What a run can be asked for by, as HKube's API takes it, made into a pipeline.

A pipeline (exec/raw), a stored pipeline's name with what is to be different (exec/stored), or an
algorithm's name with its input (exec/algorithm). Source: kube-HPC/hkube at 261d3d06,
core/api-server/lib/service/execution.js.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tarmac.documents import Document
from tarmac.errors import RequestError
from tarmac.formats.hkube.fields import is_algorithm_run, is_definition, is_pipeline

if TYPE_CHECKING:
    from tarmac.documents import Place
    from tarmac.formats.hkube.fields import Path

__all__ = ["merged", "merged_over", "run_of_algorithm", "takes_flow_input", "with_input"]


def run_of_algorithm(
    document: Document, path: Path, value: dict[str, Any]
) -> tuple[Document, dict[str, Any]]:
    """Return the pipeline of one node that runs an algorithm.

    Args:
        document: It is asked for in.
        path: Where.
        value: The algorithm's name, its input, whether to debug it.

    Returns:
        A document of the pipeline alone, which knows the lines, and its value.
    """
    body = _of_one_node(value.get("name"), value.get("input", []))
    if value.get("debug"):
        body["nodes"][0]["kind"] = "debug"
    places: dict[Path, Place] = {(): document.place_of(path)}
    places["nodes", 0, "algorithmName"] = document.place_of((*path, "name"))
    start = (*path, "input")
    for old, place in document.places.items():
        if old[: len(start)] == start:
            places["nodes", 0, *old[len(path) :]] = place
    return Document(document.name, body, places), body


def _of_one_node(name: Any, given: Any) -> dict[str, Any]:
    node = {"nodeName": name, "algorithmName": name, "input": given}
    return {"name": name.replace("\\", "-") if isinstance(name, str) else name, "nodes": [node]}


def merged_over(stored: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Return a stored pipeline with what a request says; its ``flowInput`` is replaced whole."""
    body: dict[str, Any] = merged(stored, value)
    if "flowInput" in value:
        body["flowInput"] = value["flowInput"]
    return body


def merged(old: Any, new: Any) -> Any:
    """Return one value over another, merged as lodash does: keys, and parts of lists by number.

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
    """Whether what a document holds runs with a ``flowInput``, rather than with a list."""
    if isinstance(value, dict) and isinstance(value.get("pipeline"), dict):
        return True
    parts = value if isinstance(value, list) else [value]
    return any(is_pipeline(part) for part in parts)


def with_input(document: Document, given: Any) -> Document:
    """Return a document whose pipeline or algorithm runs with an input.

    Args:
        document: Of one pipeline, of Tarmac's job with one, or of one algorithm's definition.
        given: The ``flowInput`` of the pipeline; what the algorithm is given, a list.

    Raises:
        RequestError: It holds neither or several, or the input is not of its form.
    """
    value = document.value
    if isinstance(value, dict) and isinstance(value.get("pipeline"), dict):
        pipeline = value["pipeline"] | {"flowInput": _flow_input(given)}
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
        found = [number for number, part in enumerate(parts) if kind(part)]
        if len(found) > 1:
            raise RequestError(
                f"{document.name} holds {len(found)} of them, and an input is for one"
            )
        if found:
            return change(document, prefixes[found[0]], parts[found[0]], given)
    raise RequestError(
        f"{document.name} holds no algorithm and no pipeline of HKube's, which an input is for"
    )


def _flow_input(given: Any) -> Any:
    if given is not None and not isinstance(given, dict):
        raise RequestError("a pipeline's input, its flowInput, is a mapping: {...}")
    return given


def _list(given: Any) -> Any:
    if not isinstance(given, list):
        raise RequestError("an algorithm's input is a list, of what it is given: [...]")
    return given


def _with_flow_input(document: Document, path: Path, part: Any, given: Any) -> Document:
    return _put(document, path, part | {"flowInput": _flow_input(given)}, "flowInput")


def _with_list(document: Document, path: Path, part: Any, given: Any) -> Document:
    return _put(document, path, part | {"input": _list(given)}, "input")


def _with_run(document: Document, path: Path, part: Any, given: Any) -> Document:
    """Put what runs the algorithm beside its definition."""
    run = _of_one_node(part.get("name"), _list(given))
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
    """Return a document with another value, of whose part at a path no lines are known."""
    size = len(path)
    return dataclasses.replace(
        document,
        value=value,
        places={old: place for old, place in document.places.items() if old[:size] != path},
        texts={old: text for old, text in document.texts.items() if old[:size] != path},
        dates={old for old in document.dates if old[:size] != path},
    )
