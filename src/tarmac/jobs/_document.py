"""YAML and JSON files as plain values that remember where in the file each came from."""

from __future__ import annotations

import dataclasses
import difflib
import re
from typing import TYPE_CHECKING, Any

import yaml

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel, ValidationError

__all__ = [
    "Document",
    "Place",
    "Problem",
    "parse_document",
    "problems_of",
    "read_document",
    "refuse",
    "show_path",
]

# An alias may stand for a large part of a document, and an alias of aliases for far more than
# memory holds; real job files have thousands of values.
_MAX_VALUES = 1_000_000
_MAX_BYTES = 64 * 2**20

_HALF = re.compile("[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, order=True)
class Place:
    """A line and a column of a file, both from 1."""

    line: int
    column: int


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something wrong in a document.

    Attributes:
        place: Where.
        path: Of the value in the document, ``tasks[1].resources.gpus``.
        message: What is wrong with it.
        hint: The nearest valid name, where there is one.
    """

    place: Place
    path: str
    message: str
    hint: str = ""


@dataclasses.dataclass(frozen=True)
class Document:
    """A file's values, and where they are.

    Attributes:
        name: The file, for messages.
        value: Plain values: dictionaries, lists, texts, numbers, booleans, None.
        places: From paths, as tuples of keys and indices, to places.
        texts: Of scalars without quotes, tags or anchors, by path, as they are written: versions of
            YAML differ in what they read such as.
    """

    name: str
    value: Any
    places: Mapping[tuple[str | int, ...], Place]
    texts: Mapping[tuple[str | int, ...], str]

    def place_of(self, path: Sequence[str | int]) -> Place:
        """Return the place of a value, or of what would hold it."""
        for length in range(len(path), -1, -1):
            found = self.places.get(tuple(path[:length]))
            if found is not None:
                return found
        return Place(1, 1)


class _Reader(yaml.SafeLoader):
    """Resolves scalars as YAML 1.1 does, and takes no other tags than those of plain values."""


def read_document(path: Path) -> Document:
    """Read a file.

    Raises:
        RequestError: It cannot be read, or is no YAML or JSON of plain values; the message has its
            line and column.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise RequestError(f"{path}: {len(content) / 2**20:.0f} MiB, more than a job file has")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(f"{path}: byte {error.start} is not UTF-8") from error
    return parse_document(text, str(path))


def parse_document(text: str, name: str) -> Document:
    """Read a document from its text; see `read_document`."""
    try:
        root = yaml.compose(text, Loader=_Reader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        raise RequestError(f"{name}{place}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise RequestError(f"{name}: {error}") from error
    except RecursionError as error:
        raise RequestError(f"{name}: nested too deeply") from error
    if root is None:
        raise RequestError(f"{name}: is empty")
    builder = _Builder(name)
    try:
        value = builder.build(root, ())
    except RecursionError as error:
        raise RequestError(f"{name}: nested too deeply, or within itself") from error
    return Document(name, value, builder.places, builder.texts)


class _Builder:
    """Turns YAML's nodes into plain values."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._constructor = yaml.constructor.SafeConstructor()
        self.places: dict[tuple[str | int, ...], Place] = {}
        self.texts: dict[tuple[str | int, ...], str] = {}

    def build(self, node: yaml.Node, path: tuple[str | int, ...]) -> Any:
        if len(self.places) > _MAX_VALUES:
            raise self._error(node, f"more than {_MAX_VALUES:,} values, by aliases of aliases")
        self.places[path] = _place(node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(part, (*path, index)) for index, part in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: tuple[str | int, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in self._pairs(node):
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(key_node, "a key is a list or a mapping, expected a text")
            key = self._text(key_node)
            if key in found:
                raise self._error(key_node, f"{key!r} is there twice")
            found[key] = self.build(value_node, (*path, key))
            # An error of a value is best shown where its key is.
            self.places[*path, key] = _place(key_node)
        return found

    def _pairs(self, node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yield keys and values, those of merged mappings (``<<``) last and not over others."""
        own = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
        for key, value in node.value:
            if key.tag != "tag:yaml.org,2002:merge":
                yield key, value
                continue
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            seen = set(own)
            for mapping in merged:
                if not isinstance(mapping, yaml.MappingNode):
                    raise self._error(value, "<< takes a mapping, or a list of them")
                for inner_key, inner in self._pairs(mapping):
                    if inner_key.value not in seen:
                        seen.add(inner_key.value)
                        yield inner_key, inner

    def _scalar(self, node: yaml.ScalarNode, path: tuple[str | int, ...]) -> Any:
        text = self._text(node)
        if _is_plain(node):
            self.texts[path] = text
        try:
            match node.tag:
                case "tag:yaml.org,2002:str" | "tag:yaml.org,2002:timestamp":
                    # A date is the text that it is written as.
                    return text
                case "tag:yaml.org,2002:null":
                    return None
                case "tag:yaml.org,2002:bool":
                    return self._constructor.construct_yaml_bool(node)
                case "tag:yaml.org,2002:int":
                    return self._constructor.construct_yaml_int(node)
                case "tag:yaml.org,2002:float":
                    return self._constructor.construct_yaml_float(node)
                case _:
                    raise self._error(node, f"the tag {node.tag} is not taken")
        except ValueError as error:
            raise self._error(node, f"{text!r}: {error}") from error

    def _text(self, node: yaml.ScalarNode) -> str:
        """Return a scalar's text; JSON writes what is beyond 16 bits as two halves."""
        text = str(node.value)
        if not _HALF.search(text):
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            raise self._error(node, "half of a character is there, \\ud800 to \\udfff") from error

    def _error(self, node: yaml.Node, message: str) -> RequestError:
        place = _place(node)
        return RequestError(f"{self._name}:{place.line}:{place.column}: {message}")


def _is_plain(node: yaml.ScalarNode) -> bool:
    mark = node.start_mark
    return node.style is None and mark.buffer is not None and mark.buffer[mark.pointer] not in "!&"


def _place(node: yaml.Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def refuse(document: Document, problems: Sequence[Problem]) -> RequestError:
    """Make one error of all problems, in the order of the file."""
    lines = []
    for problem in sorted(problems, key=lambda problem: problem.place):
        where = f"{document.name}:{problem.place.line}:{problem.place.column}"
        path = f" {problem.path}:" if problem.path else ""
        lines.append(f"{where}:{path} {problem.message}")
        if problem.hint:
            lines.append(problem.hint)
    return RequestError(lines[0], hint="\n".join(lines[1:]) or None)


def problems_of(
    error: ValidationError, document: Document, model: type[BaseModel]
) -> list[Problem]:
    """Say where in a document each of Pydantic's errors is, and which name is the nearest.

    Args:
        error: From validating ``document.value``.
        document: The file.
        model: What it was validated as.
    """
    return [_problem(found, document, model) for found in error.errors(include_url=False)]


def _problem(found: Any, document: Document, model: type[BaseModel]) -> Problem:
    # Pydantic puts the branch of a union that it tried between the keys.
    location = _real_path(found["loc"], document.value)
    place, path = document.place_of(location), show_path(location)
    match found["type"]:
        case "extra_forbidden":
            name = str(location[-1]) if location else ""
            valid = _fields_at(model, location[:-1])
            near = difflib.get_close_matches(name, valid, n=1)
            hint = f"  did you mean {near[0]!r}?" if near else f"  valid: {', '.join(valid)}"
            return Problem(place, path, "unknown key", hint if valid else "")
        case "missing":
            return Problem(place, path, "is missing")
        case _:
            message = found["msg"].removeprefix("Value error, ")
            value = found.get("input")
            shown = repr(value) if isinstance(value, (str, int, float, bool)) else ""
            return Problem(place, path, f"{shown}: {message}" if shown else message)


def _real_path(location: Sequence[str | int], value: Any) -> tuple[str | int, ...]:
    """Leave out of Pydantic's location what is not in the document."""
    path: list[str | int] = []
    for number, part in enumerate(location):
        is_last = number == len(location) - 1
        if isinstance(value, dict):
            if part in value:
                value = value[part]
            elif not is_last:
                continue
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            continue
        path.append(part)
    return tuple(path)


def show_path(path: Sequence[str | int]) -> str:
    """Write a path as people do: ``tasks[1].resources.gpus``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _fields_at(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the keys that the model at a path takes; none where the path leads elsewhere."""
    current: Any = model
    for part in path:
        if isinstance(part, int):
            continue
        fields = getattr(current, "model_fields", {})
        field = next((f for n, f in fields.items() if (f.alias or n) == part), None)
        current = _model_in(field.annotation) if field is not None else None
    fields = getattr(current, "model_fields", {})
    return [field.alias or name for name, field in fields.items()]


def _model_in(annotation: Any) -> Any:
    if hasattr(annotation, "model_fields"):
        return annotation
    inner = (_model_in(part) for part in getattr(annotation, "__args__", ()))
    return next((found for found in inner if found is not None), None)
