"""Units as arguments of scancel, few and short enough for one command line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tarmac.slurm.interface import Unit

# Most arguments of one scancel, and most spans of an array's elements in an argument.
_MAX_WORDS = 500
_MAX_SPANS = 200


def arguments_of(units: Sequence[Unit]) -> Iterator[Sequence[str]]:
    """Yield argument lists for scancel, such as ``20_[1-3,7]``, of limited length."""
    words: list[str] = []
    for job, some in itertools.groupby(sorted(units, key=_order), lambda unit: unit.job):
        elements = [unit.element for unit in some if unit.element is not None]
        if not elements:
            words.append(str(job))
        words.extend(f"{job}_[{ranges}]" for ranges in _ranges(elements))
    for first in range(0, len(words), _MAX_WORDS):
        yield words[first : first + _MAX_WORDS]


def _order(unit: Unit) -> tuple[int, int]:
    return unit.job, -1 if unit.element is None else unit.element


def _ranges(elements: Sequence[int]) -> Iterator[str]:
    """Yield ascending numbers as ranges, such as ``1-3,7``, in portions that scancel takes."""
    spans: list[tuple[int, int]] = []
    for element in elements:
        if spans and spans[-1][1] == element - 1:
            spans[-1] = (spans[-1][0], element)
        else:
            spans.append((element, element))
    for first in range(0, len(spans), _MAX_SPANS):
        some = spans[first : first + _MAX_SPANS]
        yield ",".join(str(a) if a == b else f"{a}-{b}" for a, b in some)
