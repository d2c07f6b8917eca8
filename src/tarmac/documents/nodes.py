"""YAML as nodes with their places, by libyaml where it follows YAML 1.2, else by ruamel.yaml.

libyaml is several times as fast. Its result is used where both parsers agree. ruamel.yaml reads a
text that libyaml refuses or where the two may differ, and gives the error messages.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from tarmac.documents.document import Place
from tarmac.errors import RequestError

# An alias may expand to a large part of a document, and an alias of aliases to more than memory
# holds. Real job files have thousands of values.
MAX_VALUES = 1_000_000

# The time of a parser grows with each level, and no job file has as many levels.
_MAX_DEPTH = 500

TAG = "tag:yaml.org,2002:"

# Texts that libyaml, a parser of YAML 1.1, may read differently.
_DIFFERENT = re.compile(
    r"[\t\x85\u2028\u2029\ufeff]"  # line ends of YAML 1.1 alone, tabs, a byte order mark
    r"|^%|^\.\.\.|!!!|[|>][-+\d]*#"  # directives, ends of documents, odd tags and comments
    r"|[&*][-\w]+[^-\w\s,\]}=&]",  # anchors of more than letters
    re.MULTILINE,
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A text and its type tag.

    Attributes:
        place: Line and column where the scalar starts, both from 1.
        text: Content of the scalar, without its quotes.
        tag: Type tag: written in the file, or resolved by the rules of YAML 1.2.
        is_plain: Whether the scalar has neither quotes nor a tag.
    """

    place: Place
    text: str
    tag: str
    is_plain: bool


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class List:
    """A list of nodes.

    Attributes:
        place: Line and column where the list starts, both from 1.
        parts: Items of the list, in the order of the file.
    """

    place: Place
    parts: list[Node]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """A mapping of nodes.

    Attributes:
        place: Line and column where the mapping starts, both from 1.
        parts: Keys and values in turn, in the order of the file.
    """

    place: Place
    parts: list[Node]

    @property
    def pairs(self) -> Iterable[tuple[Node, Node]]:
        """Pairs of key and value in the order of the file, including merges."""
        return zip(self.parts[::2], self.parts[1::2], strict=True)


Node = Scalar | List | Mapping


# Parts of parser messages for frequent mistakes, each with a hint.
_HINTS = {
    "mapping values are not allowed here": "A text with ': ' in it needs quotes: \"a: b\". Or a "
    "key has another indent than those above it.",
    "expected '<document start>'": "This is not YAML with keys and values, such as name: x.",
    "could not find expected ':'": "A key needs a colon and a space behind it: name: x",
    "cannot start any token": "YAML is indented by spaces, never by tabs. A text that begins with "
    "@, `, % or a tab needs quotes.",
    "found unexpected end of stream": "A quote or a bracket is not closed.",
    "while scanning a quoted scalar": "A quote is not closed.",
    "expected ',' or ']'": "A list in brackets is not closed, or lacks a comma.",
    "expected ',' or '}'": "A mapping in braces is not closed, or lacks a comma. A text that "
    "begins with {{ needs quotes.",
    "expected <block end>": "This line has another indent than those above it.",
    "unknown escape character": "In double quotes \\ begins an escape: write \\\\, or use single "
    "quotes.",
    "found undefined alias": "A text that begins with * needs quotes; else &NAME must come before "
    "*NAME.",
}


def _hint_on(problem: str) -> str | None:
    return next((hint for part, hint in _HINTS.items() if part in problem), None)


def compose(text: str, name: str) -> tuple[Node, YAML]:
    """Return a document's root node, and the reader that constructs the values of its scalars.

    Args:
        text: YAML text of the whole document.
        name: Name of the file, for error messages.

    Raises:
        RequestError: The text is empty, no YAML, or more than one document. The message has the
            line and column.
    """
    if yaml.__with_libyaml__ and not _DIFFERENT.search(text):
        reader = YAML(typ="safe", pure=True)
        composer = _Composer(name, reader)
        try:
            root = _compose(yaml.parse(text, Loader=yaml.CSafeLoader), name, composer)
            # The parsers may differ on a document that is a single block scalar.
            if not isinstance(root, Scalar):
                return root, reader
        except (yaml.YAMLError, UnicodeEncodeError):
            # The text is valid YAML 1.2, or ruamel.yaml reports the mistake below.
            pass
        except RequestError:
            # The parsers may also differ on the end of a single scalar.
            if not isinstance(composer.root, Scalar):
                raise
    # Pure Python, since ruamel.yaml's parser in C has no places.
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
        # ruamel.yaml refuses a %YAML directive of another version with an assertion.
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
    """A builder of nodes from events, which have the same names in PyYAML and ruamel.yaml."""

    def __init__(self, name: str, reader: YAML) -> None:
        self.root: Node | None = None
        self._name = name
        self._resolver = reader.resolver
        self._anchors: dict[str, Node] = {}
        # Parts of the lists and mappings that are still open.
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
            # The document's place, since the parsers may place its first node differently.
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
            # Only now, after the directives, the YAML version is known.
            self._rules = self._resolver.versioned_resolver
        rules = self._rules.get(text[:1], ())
        tag = next((tag for tag, pattern in rules if pattern.match(text)), f"{TAG}str")
        return Scalar(place, text, tag, is_plain=True)

    def _error(self, place: Place, message: str) -> RequestError:
        hint = _hint_on(message)
        return RequestError(f"{self._name}:{place.line}:{place.column}: {message}", hint=hint)
