"""YAML and JSON files as plain values that remember where in the file each came from."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import re
from typing import TYPE_CHECKING, Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel, ValidationError

__all__ = [
    "Document",
    "Place",
    "Problem",
    "change_document",
    "dump_document",
    "parse_document",
    "problems_of",
    "read_document",
    "refuse",
    "show_path",
]

# An alias may stand for a large part of a document, and an alias of aliases for far more than
# memory holds; real job files have thousands of values.
_MAX_VALUES = 1_000_000
_MAX_BYTES = 16 * 2**20
# Python refuses to read more than 4,300 digits, and no setting has as many as this.
_MAX_NUMBER = 100

# Of a file that is wrong throughout, more would help nobody.
_MAX_SHOWN = 20
_MAX_TEXT = 80

_HALF = re.compile("[\ud800-\udfff]")

_TAG = "tag:yaml.org,2002:"
_NUMBERS = (f"{_TAG}int", f"{_TAG}float")
# A date, a lone ``=`` and a lone ``<<`` are the texts that they are written as.
_TEXTS = tuple(f"{_TAG}{name}" for name in ("str", "timestamp", "value", "merge"))


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
    """Read a document from its text; see `read_document`.

    Scalars are what YAML 1.2 says: ``yes`` and ``12:30`` are texts, ``017`` is 17. Tags other than
    those of plain values are refused.
    """
    # Pure, since the parser in C takes anchors and marks away.
    parser = YAML(typ="safe", pure=True)
    parser.composer.warn_double_anchors = False
    try:
        root = parser.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        raise RequestError(f"{name}{place}: {error.problem or error.context}") from error
    except ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - before.rfind("\n")
        raise RequestError(
            f"{name}:{line}:{column}: the character #x{error.character:04x} cannot be in a text"
        ) from error
    except (YAMLError, AssertionError) as error:
        # An assertion is how ruamel.yaml refuses a directive %YAML of another version.
        raise RequestError(f"{name}: {error}") from error
    except RecursionError as error:
        raise RequestError(f"{name}: nested too deeply") from error
    if root is None:
        raise RequestError(f"{name}: is empty")
    builder = _Builder(name, parser)
    try:
        value = builder.build(root, ())
    except RecursionError as error:
        raise RequestError(f"{name}: nested too deeply, or within itself") from error
    return Document(name, value, builder.places, builder.texts)


def dump_document(value: Any) -> str:
    """Write plain values as YAML that versions 1.1 and 1.2 read alike."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=100))


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that YAML 1.2 takes for numbers, beside those that 1.1 does."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write what is there twice twice: not all readers take aliases."""
        del data
        return True


# Wider than the numbers of YAML 1.2: a text in quotes stays the text that it is.
_Dumper.add_implicit_resolver(
    f"{_TAG}float",
    re.compile(r"[-+]?(0[box][0-9a-fA-F_]+|[0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?)$"),
    list("-+.0123456789"),
)


def change_document(document: Document, key: str, text: str) -> Document:
    """Return a document with one value changed.

    Args:
        document: The one to start from, which stays as it is.
        key: Where: keys and indices from 0 with dots between, ``tasks.0.resources.gpus``. What
            holds it is made where it is missing, but for parts of lists.
        text: The new value, as it would be written in a file; none for an empty text.

    Raises:
        RequestError: The key leads nowhere, or the text is no value.
    """
    new = parse_document(text, f"{key}={text}") if text else Document("", "", {}, {})
    value = copy.deepcopy(document.value)
    path: list[str | int] = []
    holder, parts = value, key.split(".")
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        at: str | int = part
        if isinstance(holder, list):
            if not part.isdecimal() or len(part) > len(str(len(holder))):
                at = len(holder)
            else:
                at = int(part)
            if at >= len(holder):
                has = f"has {len(holder)} parts, expected one's number from 0"
                raise RequestError(f"{key}: {show_path(path)} {has}, not {part!r}")
        elif not isinstance(holder, dict):
            raise RequestError(f"{key}: {part} is in no mapping and no list")
        path.append(at)
        if is_last:
            holder[at] = new.value
        elif isinstance(holder, dict):
            holder = holder.setdefault(at, {})
        else:
            holder = holder[at]
    where = tuple(path)
    texts = {old: said for old, said in document.texts.items() if old[: len(where)] != where}
    texts |= {(*where, *inner): said for inner, said in new.texts.items()}
    return dataclasses.replace(document, value=value, texts=texts)


class _Builder:
    """Turns YAML's nodes into plain values."""

    def __init__(self, name: str, parser: YAML) -> None:
        self._name = name
        self._constructor = parser.constructor
        self._pairs_of: dict[int, list[tuple[ScalarNode, Node]]] = {}
        self._num_merged = 0
        self.places: dict[tuple[str | int, ...], Place] = {}
        self.texts: dict[tuple[str | int, ...], str] = {}

    def build(self, node: Node, path: tuple[str | int, ...]) -> Any:
        if len(self.places) > _MAX_VALUES:
            raise self._error(node, f"more than {_MAX_VALUES:,} values, by aliases of aliases")
        self.places[path] = _place(node)
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.build(part, (*path, index)) for index, part in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: tuple[str | int, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in self._pairs(node):
            key = self._text(key_node)
            if key in found:
                raise self._error(key_node, f"{_shown(key)} is there twice")
            found[key] = self.build(value_node, (*path, key))
            # An error of a value is best shown where its key is.
            self.places[*path, key] = _place(key_node)
        return found

    def _pairs(self, node: MappingNode) -> list[tuple[ScalarNode, Node]]:
        """Return keys and values, those of merged mappings (``<<``) last and not over others."""
        # Merges of merges multiply unless each mapping's are gathered once.
        known = self._pairs_of.get(id(node))
        if known is not None:
            return known
        pairs: list[tuple[ScalarNode, Node]] = []
        merged: dict[int, MappingNode] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                raise self._error(key, "a key is a list or a mapping, expected a text")
            if str(key.tag) != f"{_TAG}merge":
                pairs.append((key, value))
                continue
            for mapping in value.value if isinstance(value, SequenceNode) else [value]:
                if not isinstance(mapping, MappingNode):
                    raise self._error(value, "<< takes a mapping, or a list of them")
                merged.setdefault(id(mapping), mapping)
        seen = {key.value for key, _ in pairs}
        for mapping in merged.values():
            inner = self._pairs(mapping)
            self._num_merged += len(inner)
            if self._num_merged > _MAX_VALUES:
                raise self._error(node, f"more than {_MAX_VALUES:,} values, by merges of merges")
            pairs += [pair for pair in inner if pair[0].value not in seen]
            seen.update(key.value for key, _ in inner)
        self._pairs_of[id(node)] = pairs
        return pairs

    def _scalar(self, node: ScalarNode, path: tuple[str | int, ...]) -> Any:
        text, tag = self._text(node), str(node.tag)
        if _is_plain(node):
            self.texts[path] = text
        if tag in _TEXTS:
            return text
        if tag == f"{_TAG}null":
            return None
        if tag not in (*_NUMBERS, f"{_TAG}bool"):
            raise self._error(node, f"the tag {_shown(tag)} is not taken")
        if len(text) > _MAX_NUMBER:
            raise self._error(node, f"{_shown(text)} has {len(text):,} digits, a text needs quotes")
        try:
            if tag == f"{_TAG}bool":
                return self._constructor.construct_yaml_bool(node)
            if tag == f"{_TAG}int":
                return self._constructor.construct_yaml_int(node)
            return self._constructor.construct_yaml_float(node)
        except (ValueError, LookupError) as error:
            raise self._error(node, f"{text!r} is no number, a text needs quotes") from error

    def _text(self, node: ScalarNode) -> str:
        """Return a scalar's text; JSON writes what is beyond 16 bits as two halves."""
        text = str(node.value)
        if not _HALF.search(text):
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            raise self._error(node, "half of a character is there, \\ud800 to \\udfff") from error

    def _error(self, node: Node, message: str) -> RequestError:
        place = _place(node)
        return RequestError(f"{self._name}:{place.line}:{place.column}: {message}")


def _is_plain(node: ScalarNode) -> bool:
    mark = node.start_mark
    return node.style is None and mark.buffer is not None and mark.buffer[mark.pointer] not in "!&"


def _place(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def refuse(document: Document, problems: Sequence[Problem]) -> RequestError:
    """Make one error of all problems, in the order of the file; of very many, of the first."""
    lines = []
    for problem in sorted(problems, key=lambda problem: problem.place)[:_MAX_SHOWN]:
        where = f"{document.name}:{problem.place.line}:{problem.place.column}"
        path = f" {problem.path}:" if problem.path else ""
        lines.append(f"{where}:{path} {problem.message}")
        if problem.hint:
            lines.append(problem.hint)
    if len(problems) > _MAX_SHOWN:
        lines.append(f"and {len(problems) - _MAX_SHOWN:,} more")
    return RequestError(lines[0], hint="\n".join(lines[1:]) or None)


def problems_of(
    error: ValidationError, document: Document, model: type[BaseModel]
) -> list[Problem]:
    """Say where in a document each of Pydantic's errors is, in the order of the file.

    Args:
        error: From validating ``document.value``.
        document: The file.
        model: What it was validated as; the nearest of its names is said of an unknown key.
    """
    found = []
    for each in error.errors(include_url=False):
        # Pydantic puts the branch of a union that it tried between the keys.
        location = _real_path(each["loc"], document.value)
        found.append((document.place_of(location), location, each))
    found.sort(key=lambda one: one[0])
    # Finding the nearest name takes long, and only the first problems are shown.
    return [
        _problem(place, location, each, model if number < _MAX_SHOWN else None)
        for number, (place, location, each) in enumerate(found)
    ]


def _problem(
    place: Place, location: Sequence[str | int], found: Any, model: type[BaseModel] | None
) -> Problem:
    path = show_path(location)
    if found["type"] == "extra_forbidden":
        name = str(location[-1]) if location else ""
        valid = _fields_at(model, location[:-1]) if model is not None else []
        near = difflib.get_close_matches(name, valid, n=1) if len(name) <= _MAX_TEXT else []
        hint = f"  did you mean {near[0]!r}?" if near else f"  valid: {', '.join(valid)}"
        return Problem(place, path, "unknown key", hint if valid else "")
    if found["type"] == "missing":
        return Problem(place, path, "is missing")
    said = _WORDS.get(found["type"])
    # A message of ours is no template: it may hold braces itself.
    message = found["msg"].removeprefix("Value error, ")
    if said is not None:
        message = said.format(**found.get("ctx", {}))
    value = found.get("input")
    shown = _shown(value) if isinstance(value, (str, int, float, bool)) else ""
    return Problem(place, path, f"{shown}: {message}" if shown else message)


# What Pydantic finds, in words that know nothing of Python's types.
_WORDS = {
    **dict.fromkeys(("string_type", "string_sub_type"), "expected a text"),
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "expected a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing"), "expected a number"),
    "finite_number": "expected a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "expected true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "expected a list"),
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "dataclass_type"),
        "expected keys and their values",
    ),
    **dict.fromkeys(("literal_error", "enum"), "expected {expected}"),
    "union_tag_invalid": "{tag!r} is not known, expected {expected_tags}",
    "union_tag_not_found": "{discriminator} is missing",
    "string_pattern_mismatch": "expected a text of the form {pattern}",
    "string_too_short": "is empty",
    "too_short": "expected at least {min_length} of them",
    "greater_than": "expected more than {gt:g}",
    "greater_than_equal": "expected at least {ge:g}",
    "less_than": "expected less than {lt:g}",
    "less_than_equal": "expected at most {le:g}",
}


def _shown(value: Any) -> str:
    """Return a value for a message, a long one by its beginning."""
    text = repr(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


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
