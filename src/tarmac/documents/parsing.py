"""YAML and JSON files read as plain values with their places."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode

from tarmac.documents.document import Document, Path, Place
from tarmac.documents.nodes import MAX_VALUES, TAG, List, Mapping, Node, Scalar, compose
from tarmac.errors import RequestError, quoted

_MAX_BYTES = 16 * 2**20
# Python refuses numbers of more than 4,300 digits, and no setting has this many.
_MAX_NUMBER = 100
_MAX_TEXT = 80

_HALF = re.compile("[\ud800-\udfff]")

_TEXT, _DATE, _NULL, _BOOL = (f"{TAG}{name}" for name in ("str", "timestamp", "null", "bool"))
_NUMBERS = (f"{TAG}int", f"{TAG}float")
_MERGE = f"{TAG}merge"
# A date, a single ``=`` and a single ``<<`` stay texts.
_TEXTS = (_TEXT, _DATE, f"{TAG}value", _MERGE)


def read_document(path: pathlib.Path) -> Document:
    """Read a YAML or JSON file.

    Raises:
        RequestError: The file cannot be read, or is no YAML or JSON of plain values. The message
            has the line and column.
    """
    return parse_document(read_text(path), str(path))


def read_text(path: pathlib.Path) -> str:
    """Read a file's text.

    Raises:
        RequestError: The file cannot be read, is above 16 MiB, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            # With a limit, since a device or a pipe may have no end.
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise RequestError(f"{path}: more than {_MAX_BYTES // 2**20} MiB, which no job file has")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise RequestError(
            f"{path}:{line}:{column}: is not UTF-8",
            hint=f"Convert it: iconv -f latin1 -t utf-8 {quoted(path)} > converted\n"
            "latin1 stands for the encoding that it has.",
        ) from error


def parse_document(text: str, name: str) -> Document:
    """Read a document from its text; see `read_document`.

    Scalars follow YAML 1.2: ``yes`` and ``12:30`` are texts, ``017`` is 17. Tags other than those
    of plain values are refused.
    """
    root, reader = compose(text, name)
    builder = _Builder(name, reader)
    try:
        builder.count(root)
        value = builder.build(root, ())
    except RecursionError as error:
        raise RequestError(f"{name}: nested too deeply, or within itself") from error
    return Document(name, value, builder.places, builder.texts, builder.dates, text)


def _merges(key: Node) -> bool:
    return isinstance(key, Scalar) and key.tag == _MERGE


class _Builder:
    """A builder of plain values from nodes."""

    def __init__(self, name: str, reader: YAML) -> None:
        self._name = name
        self._constructor = reader.constructor
        self._pairs_of: dict[int, list[tuple[Scalar, Node]]] = {}
        self._num_merged = 0
        self._sizes: dict[int, int] = {}
        self.places: dict[Path, Place] = {}
        self.texts: dict[Path, str] = {}
        self.dates: set[Path] = set()

    def count(self, node: Node) -> int:
        """Return the number of values in a node; refuse too many before any value is built."""
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        # Ends the recursion for a node that contains itself, which cannot be built.
        self._sizes[id(node)] = 1
        parts: Sequence[Node] = ()
        if isinstance(node, Mapping):
            parts = [value for key, value in node.pairs if not _merges(key)]
        elif not isinstance(node, Scalar):
            parts = node.parts
        size = 1 + sum(map(self.count, parts))
        if size > MAX_VALUES:
            raise self._too_many(node)
        self._sizes[id(node)] = size
        return size

    def build(self, node: Node, path: Path) -> Any:
        # Merges add values that were not counted.
        if len(self.places) > MAX_VALUES:
            raise self._too_many(node)
        self.places[path] = node.place
        if isinstance(node, Scalar):
            return self._scalar(node, path)
        if isinstance(node, Mapping):
            return self._mapping(node, path)
        return [self.build(part, (*path, index)) for index, part in enumerate(node.parts)]

    def _mapping(self, node: Mapping, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in self._pairs(node):
            key = self._text(key_node)
            if key in values:
                raise self._error(key_node, f"{_shown(key)} appears twice")
            values[key] = self.build(value_node, (*path, key))
            # Errors of a value are shown at the place of its key.
            self.places[*path, key] = key_node.place
        return values

    def _pairs(self, node: Mapping) -> list[tuple[Scalar, Node]]:
        """Return keys and values, last those of merged mappings (``<<``), which override none."""
        # Cached, since merges of merges would otherwise multiply.
        known = self._pairs_of.get(id(node))
        if known is not None:
            return known
        pairs: list[tuple[Scalar, Node]] = []
        merged: dict[int, Mapping] = {}
        for key, value in node.pairs:
            if not isinstance(key, Scalar):
                hint = "A text that begins with a brace needs quotes, such as '{{ name }}'."
                raise self._error(
                    key,
                    "a key is a list or a mapping, expected a text",
                    hint=hint if isinstance(key, Mapping) else None,
                )
            if not _merges(key):
                pairs.append((key, value))
                continue
            for mapping in value.parts if isinstance(value, List) else [value]:
                if not isinstance(mapping, Mapping):
                    # At the key, since parsers disagree on the place of an empty value.
                    raise self._error(key, "<< takes a mapping, or a list of them")
                merged.setdefault(id(mapping), mapping)
        if merged:
            self._merge(node, pairs, merged.values())
        self._pairs_of[id(node)] = pairs
        return pairs

    def _merge(
        self, node: Mapping, pairs: list[tuple[Scalar, Node]], merged: Iterable[Mapping]
    ) -> None:
        seen = {key.text for key, _ in pairs}
        for mapping in merged:
            inner = self._pairs(mapping)
            self._num_merged += len(inner)
            if self._num_merged > MAX_VALUES:
                raise self._error(node, f"more than {MAX_VALUES:,} values, by merges of merges")
            pairs += [pair for pair in inner if pair[0].text not in seen]
            seen.update(key.text for key, _ in inner)

    def _scalar(self, node: Scalar, path: Path) -> Any:
        text, tag = self._text(node), node.tag
        if tag in _TEXTS:
            if tag == _DATE and node.is_plain:
                self.dates.add(path)
            return text
        if tag == _NULL:
            return None
        if tag not in (*_NUMBERS, _BOOL):
            raise self._error(node, f"the tag {_shown(tag)} is not supported")
        if len(text) > _MAX_NUMBER:
            raise self._error(node, f"{_shown(text)} has {len(text):,} digits, a text needs quotes")
        if node.is_plain:
            self.texts[path] = text
        scalar = ScalarNode(tag, text)
        try:
            if tag == _BOOL:
                return self._constructor.construct_yaml_bool(scalar)
            if tag == f"{TAG}int":
                return self._constructor.construct_yaml_int(scalar)
            return self._constructor.construct_yaml_float(scalar)
        except (ValueError, LookupError) as error:
            raise self._error(node, f"{text!r} is not a number, a text needs quotes") from error

    def _text(self, node: Scalar) -> str:
        """Return a scalar's text, with the surrogate pairs of JSON joined."""
        if not _HALF.search(node.text):
            return node.text
        try:
            return node.text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            raise self._error(node, "an unpaired surrogate, \\ud800 to \\udfff") from error

    def _too_many(self, node: Node) -> RequestError:
        return self._error(node, f"more than {MAX_VALUES:,} values, by aliases of aliases")

    def _error(self, node: Node, message: str, hint: str | None = None) -> RequestError:
        place = f"{self._name}:{node.place.line}:{node.place.column}"
        return RequestError(f"{place}: {message}", hint=hint)


def _shown(value: str) -> str:
    """Return a text for a message; only the beginning of a long text."""
    text = repr(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
