"""References in a node's input to the results of earlier nodes and to the run's input.

    @train.loss       value "loss" of the node's result, after the node has ended
    #@train.files     batch: one task for each element of the value
    *@train           one task for each task of the node's batch, as soon as that task ends
    *#@train.files    both: as each task of the node ends, one task for each element of its value
    @flowInput.lr     value "lr" of the run's input; #@flowInput.rates is a batch
    #[1...5,x]        raw batch, with its elements in the text

A reference is a whole text, at any depth of the input. Source: kube-HPC/parsers.hkube 2.1.11,
lib/const/inputs.js and lib/helpers.js.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tarmac.errors import RequestError

FLOW_INPUT = "flowInput"
DATA_SOURCE = "dataSource"

# Sign, `is_batch` and `is_each` of a reference.
_SIGNS = (("@", False, False), ("#@", True, False), ("*@", False, True), ("*#@", True, True))
_RAW = "#["
# First characters of references, raw batches and keys of HKube's storage.
_MARKS = ("@", "#", "*", "$")
_INTEGER = re.compile(r"[-+]?\d+", re.ASCII)

# HKube has only JavaScript's limit. This limit keeps a mistake from filling the memory.
MAX_ELEMENTS = 1_000_000
# Limit for a range's end and an element's number. A longer number is a mistake.
_MAX_DIGITS = 15


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """A reference in a node's input.

    Attributes:
        text: Text of the reference, as in the input.
        root: Name of the node, `FLOW_INPUT` or `DATA_SOURCE`.
        path: Keys and indices from 0 that lead to the value.
        is_batch: Whether the reference makes a task for each element of the value.
        is_each: Whether each task of the node's batch makes tasks as soon as it ends.
    """

    text: str
    root: str
    path: tuple[str, ...] = ()
    is_batch: bool = False
    is_each: bool = False

    @property
    def node(self) -> str | None:
        """Name of the referenced node. None for the run's input and data sources."""
        return None if self.root in {FLOW_INPUT, DATA_SOURCE} else self.root

    @property
    def is_flow_input(self) -> bool:
        """Whether the reference is to the run's input."""
        return self.root == FLOW_INPUT


def read_reference(text: str) -> Reference | None:
    """Return the reference of a text, or None for any other text.

    Example:
        >>> reference = read_reference("#@train.files")
        >>> reference.root, reference.path, reference.is_batch
        ('train', ('files',), True)
    """
    for sign, is_batch, is_each in _SIGNS:
        if text.startswith(sign):
            root, *path = text[len(sign) :].split(".")
            return Reference(text, root, tuple(path), is_batch, is_each)
    return None


def read_raw_batch(text: str) -> Sequence[int | str] | None:
    """Return the elements of a raw batch, or None for any other text.

    All elements are texts, also numbers. Only a range such as ``2...4`` gives integers: 2, 3, 4.

    Raises:
        RequestError: The batch has more than `MAX_ELEMENTS`, or a range has too long numbers.

    Example:
        >>> list(read_raw_batch("#[a, 2, 2...4]"))
        ['a', '2', 2, 3, 4]
    """
    if not text.startswith(_RAW):
        return None
    parts = re.sub(r"[\[\]\s]", "", text[1:]).split(",")
    spans = [_span(part) if "..." in part else [part] for part in parts]
    if sum(map(len, spans)) > MAX_ELEMENTS:
        raise RequestError(f"{text!r} has more than {MAX_ELEMENTS} elements")
    return [element for span in spans for element in span]


def _span(text: str) -> Sequence[int]:
    first, last = (_INTEGER.match(end) for end in text.split("...")[:2])
    if not first or not last:
        return ()
    if max(len(first[0]), len(last[0])) > _MAX_DIGITS:
        raise RequestError(f"{text!r} is no range: its numbers have more than {_MAX_DIGITS} digits")
    return range(int(first[0]), int(last[0]) + 1)


def references(value: Any) -> Iterator[tuple[tuple[str | int, ...], Reference]]:
    """Yield each reference of an input, with the keys and indices that lead to it."""
    for place, text in marked_texts(value):
        reference = read_reference(text)
        if reference is not None:
            yield place, reference


def marked_texts(value: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each text of an input that begins with a mark, such as ``@``, with its path.

    An input may hold millions of values, so no object is created for unmarked scalars.
    """
    if isinstance(value, str):
        if value.startswith(_MARKS):
            yield (), value
        return
    ahead: list[tuple[tuple[str | int, ...], Iterator[tuple[Any, Any]]]] = [((), _items(value))]
    while ahead:
        place, items = ahead[-1]
        for key, part in items:
            if isinstance(part, str):
                if part.startswith(_MARKS):
                    yield (*place, key), part
            elif isinstance(part, (dict, list)):
                ahead.append(((*place, key), _items(part)))
                break
        else:
            ahead.pop()


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value if isinstance(value, list) else ()))


def value_at(value: Any, path: Sequence[str]) -> Any:
    """Return the value at a reference's path.

    Raises:
        KeyError: The path leads to no value.
    """
    for key in path:
        if isinstance(value, dict):
            value = value[key]
        elif isinstance(value, list) and _is_place(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            raise KeyError(key)
    return value


def _is_place(key: str) -> bool:
    return key.isdecimal() and len(key) <= _MAX_DIGITS and str(int(key)) == key
