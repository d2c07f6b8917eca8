"""YAML as nodes with their places: by libyaml where it reads as YAML 1.2 does, else by ruamel.yaml.

libyaml is several times as fast. What it makes of a text is taken where both make the same of it;
a text that it refuses, or where the two may differ, is read by ruamel.yaml, whose words on mistakes
are the ones that are shown.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from tarmac.documents.document import Place
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

# An alias may stand for a large part of a document, and an alias of aliases for far more than
# memory holds; real job files have thousands of values.
MAX_VALUES = 1_000_000

# A parser takes ever longer for each level more, and no job file has as many as this.
_MAX_DEPTH = 500

TAG = "tag:yaml.org,2002:"

# Where libyaml, which is of YAML 1.1, may read otherwise.
_DIFFERENT = re.compile(
    r"[\t\x85\u2028\u2029\ufeff]"  # line ends of YAML 1.1 alone, tabs, a byte order mark
    r"|^%|^\.\.\.|!!!|[|>][-+\d]*#"  # directives, ends of documents, odd tags and comments
    r"|[&*][-\w]+[^-\w\s,\]}=&]",  # anchors of more than letters
    re.MULTILINE,
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A text, and what it is to be read as.

    Attributes:
        place: Line and column where the scalar starts, both from 1.
        text: Content of the scalar, without its quotes.
        tag: Type tag: written in the file, or resolved by the rules of YAML 1.2.
        is_plain: Whether it has neither quotes nor a tag.
    """

    place: Place
    text: str
    tag: str
    is_plain: bool


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class List:
    """Nodes in order.

    Attributes:
        place: Line and column where the list starts, both from 1.
        parts: Items of the list, in the order of the file.
    """

    place: Place
    parts: list[Node]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """Pairs of nodes.

    Attributes:
        place: Line and column where the mapping starts, both from 1.
        parts: Keys and values, one after the other.
    """

    place: Place
    parts: list[Node]

    @property
    def pairs(self) -> Iterable[tuple[Node, Node]]:
        """Keys and values in the order of the file, merges among them."""
        return zip(self.parts[::2], self.parts[1::2], strict=True)


Node = Scalar | List | Mapping


# What a parser says of frequent mistakes, and what to do about each.
_HINTS = {
    "mapping values are not allowed here": "A text with ': ' in it needs quotes: \"a: b\". Else a "
    "key is indented otherwise than those above it.",
    "expected '<document start>'": "This is no YAML of keys and their values, such as name: x.",
    "could not find expected ':'": "A key needs a colon and a space behind it: name: x",
    "cannot start any token": "YAML is indented by spaces, never by tabs. A text that begins with "
    "@, `, % or a tab needs quotes.",
    "found unexpected end of stream": "A quote or a bracket is not closed.",
    "while scanning a quoted scalar": "A quote is not closed.",
    "expected ',' or ']'": "A list in brackets is not closed, or lacks a comma.",
    "expected ',' or '}'": "A mapping in braces is not closed, or lacks a comma. A text that "
    "begins with {{ needs quotes.",
    "expected <block end>": "This line is indented otherwise than those above it.",
    "unknown escape character": "In double quotes \\ begins an escape: write \\\\, or use single "
    "quotes.",
    "found undefined alias": "A text that begins with * needs quotes; else &NAME must come before "
    "*NAME.",
}


def _hint_on(problem: str) -> str | None:
    return next((hint for part, hint in _HINTS.items() if part in problem), None)


def compose(text: str, name: str) -> tuple[Node, YAML]:
    """Return a document's root node, and what constructs the values of its scalars.

    Args:
        text: YAML text of the whole document.
        name: Name of the file, for error messages.

    Raises:
        RequestError: It is empty, no YAML, or more than one document; the message has its line and
            column.
    """
    if yaml.__with_libyaml__ and not _DIFFERENT.search(text):
        reader = YAML(typ="safe", pure=True)
        composer = _Composer(name, reader)
        try:
            root = _compose(yaml.parse(text, Loader=yaml.CSafeLoader), name, composer)
            # Of a lone text in a block they differ.
            if not isinstance(root, Scalar):
                return root, reader
        except (yaml.YAMLError, UnicodeEncodeError):
            # Said below, or no mistake in YAML 1.2.
            pass
        except RequestError:
            # They differ in where it ends, too.
            if not isinstance(composer.root, Scalar):
                raise
    # Pure, since its parser in C has no places.
    reader = YAML(typ="safe", pure=True)
    try:
        return _compose(reader.parse(text), name, _Composer(name, reader)), reader
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        problem = str(error.problem or error.context)
        raise RequestError(f"{name}{place}: {problem}", hint=_hint_on(problem)) from error
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


def _compose(events: Iterable[Any], name: str, composer: _Composer) -> Node:
    for event in events:
        composer.take(event)
    if composer.root is None:
        raise RequestError(f"{name}: is empty")
    return composer.root


def _place_of(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


class _Composer:
    """Puts events together, which PyYAML and ruamel.yaml call alike."""

    def __init__(self, name: str, reader: YAML) -> None:
        self.root: Node | None = None
        self._name = name
        self._resolver = reader.resolver
        self._anchors: dict[str, Node] = {}
        # The parts of what has begun and not ended.
        self._open: list[list[Node]] = []
        self._rules: dict[str, list[tuple[str, re.Pattern[str]]]] | None = None
        self._num_nodes = 0
        self._document = Place(1, 1)

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        if kind in {"SequenceEndEvent", "MappingEndEvent"}:
            self._open.pop()
        elif kind in {"ScalarEvent", "AliasEvent", "SequenceStartEvent", "MappingStartEvent"}:
            self._add(kind, event, _place_of(event))
        elif kind == "DocumentStartEvent":
            self._document = _place_of(event)

    def _add(self, kind: str, event: Any, place: Place) -> None:
        self._num_nodes += 1
        if self._num_nodes > MAX_VALUES:
            raise self._error(place, f"more than {MAX_VALUES:,} values")
        node = self._node(kind, event, place)
        if self._open:
            self._open[-1].append(node)
        elif self.root is None:
            self.root = node
        else:
            # What begins there they may see at different places.
            raise self._error(self._document, "a second document, expected one in a file")
        if kind == "AliasEvent":
            return
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if not isinstance(node, Scalar):
            if len(self._open) == _MAX_DEPTH:
                raise RequestError(f"{self._name}: nested too deeply")
            self._open.append(node.parts)

    def _node(self, kind: str, event: Any, place: Place) -> Node:
        if kind == "ScalarEvent":
            return self._scalar(event, place)
        if kind == "AliasEvent":
            if event.anchor not in self._anchors:
                raise self._error(place, f"found undefined alias {event.anchor!r}")
            return self._anchors[event.anchor]
        return List(place, []) if kind == "SequenceStartEvent" else Mapping(place, [])

    def _scalar(self, event: Any, place: Place) -> Scalar:
        text, tag = event.value, event.tag
        if tag not in {None, "!"}:
            return Scalar(place, text, tag, is_plain=False)
        if tag == "!" or not event.implicit[0]:
            return Scalar(place, text, f"{TAG}str", is_plain=False)
        if self._rules is None:
            # After the directives, which say by which version.
            self._rules = self._resolver.versioned_resolver
        rules = self._rules.get(text[:1], ())
        tag = next((tag for tag, pattern in rules if pattern.match(text)), f"{TAG}str")
        return Scalar(place, text, tag, is_plain=True)

    def _error(self, place: Place, message: str) -> RequestError:
        hint = _hint_on(message)
        return RequestError(f"{self._name}:{place.line}:{place.column}: {message}", hint=hint)
