"""Samples from JSON: a list of samples, or a sample on each line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tarmac.documents import parse_document
from tarmac.errors import RequestError
from tarmac.files import read_errors
from tarmac.inference.parts import Part, Samples, as_part, join_parts, misfit
from tarmac.inference.reading.features import features_in


def read_json(path: Path, parts: Sequence[Part], size: int) -> Iterator[Samples]:
    """Read a list of samples; see `read_samples`.

    A sample is nested lists of the data's shape, or a number. A sample of several parts is an
    object; a row with named values may be an object too.
    """
    with read_errors(path):
        content = path.read_bytes()
    value = _parse(content, path, first_line=1)
    if not isinstance(value, list):
        raise RequestError(f"{path}:1: {_kind(value)}, expected a list of samples")
    for start in range(0, len(value), size):
        samples = []
        for index, sample in enumerate(value[start : start + size], start):
            try:
                samples.append(_sample(sample, parts, ""))
            except RequestError as error:
                # Only an error needs the line, and finding it means parsing the file again.
                line = parse_document(content.decode(), str(path)).place_of((index,)).line
                raise RequestError(
                    f"{path}:{line}: sample {index} (from 0){error.message}", hint=error.hint
                ) from error
        yield Samples(join_parts(samples))


def read_json_lines(path: Path, parts: Sequence[Part], size: int) -> Iterator[Samples]:
    """Read a sample from each line; see `read_json`."""
    samples: list[dict[str, NDArray[Any]]] = []
    with read_errors(path), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            value = _parse(line.rstrip(), path, first_line=number)
            samples.append(_sample(value, parts, f"{path}:{number}"))
            if len(samples) == size:
                yield Samples(join_parts(samples))
                samples = []
    if samples:
        yield Samples(join_parts(samples))


def _parse(content: bytes, path: Path, *, first_line: int) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise RequestError(f"{path}:{line}:{error.colno}: {error.msg}") from error
    except UnicodeDecodeError as error:
        line = first_line + content[: error.start].count(b"\n")
        raise RequestError(f"{path}:{line}: this is not UTF-8") from error
    except ValueError as error:
        # Python does not convert a number of thousands of digits.
        raise RequestError(f"{path}:{first_line}: {error}") from error
    except RecursionError as error:
        raise RequestError(f"{path}:{first_line}: nested too deeply") from error


def _sample(value: Any, parts: Sequence[Part], where: str) -> dict[str, NDArray[Any]]:
    if not parts[0].name:
        if isinstance(value, dict) and parts[0].features:
            value = [
                feature.of_category(value[feature.source], where)
                if feature.categories
                else value[feature.source]
                for feature in features_in(value, parts[0].features, where)
            ]
        return {"": _exact(value, parts[0], where)}
    names = [part.name for part in parts]
    if not isinstance(value, dict):
        raise RequestError(f"{where}: {_kind(value)}, expected an object with {', '.join(names)}")
    _check_names(value, names, where)
    return {part.name: _exact(value[part.name], part, where) for part in parts}


def _check_names(value: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    missing, unknown = sorted({*names} - value.keys()), sorted(value.keys() - {*names})
    if words := misfit(missing, unknown):
        raise RequestError(f"{where}: {words}")


def _exact(value: Any, part: Part, where: str) -> NDArray[Any]:
    array = as_part(value, part, where)
    if array.ndim != len(part.shape):
        raise RequestError(f"{where}: shape {list(array.shape)}, expected {list(part.shape)}")
    return array


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a bool", type(None): "null"}
    return kinds.get(type(value), "a number")
