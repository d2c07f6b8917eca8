"""A few parts of work that has too many to show, with a count of the rest.

A job has thousands of tasks, which would hide the machine. Parts that need attention come first,
then running parts.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import Work

# Maximum number of parts of one work in one place.
MAX_PARTS = 8

# The word for several parts in a state. The order is that of display.
_WORDS = {
    "hung": "hang",
    "unreadable": "cannot be read",
    "idle": "idle",
    "busy": "run",
    "warming": "run",
    "waiting": "wait",
    "ended": "ended",
}


@dataclasses.dataclass(frozen=True)
class Rest:
    """The parts of one work that are not shown.

    Attributes:
        text: Number and states of the parts: ``27 more: 20 run, 7 wait``.
    """

    text: str


def folded(works: Sequence[Work], most: int = MAX_PARTS) -> list[Work | Rest]:
    """Return works in their order, with a count in place of parts that are too many.

    Args:
        works: Works to show in one place.
        most: Number of parts to show of one work. One more part is shown, as its count would take
            the same room.
    """
    parts: dict[str, list[Work]] = {}
    for work in works:
        if work.parent is not None:
            parts.setdefault(work.parent, []).append(work)
    kept: dict[str, set[str]] = {}
    rests: dict[str, Rest] = {}
    for whole, those in parts.items():
        if len(those) > most + 1:
            ranked = sorted(those, key=_concern)
            kept[whole] = {work.id for work in ranked[:most]}
            rests[whole] = _rest(ranked[most:])
    entries: list[Work | Rest] = []
    left = {whole: len(ids) for whole, ids in kept.items()}
    for work in works:
        if work.parent not in kept:
            entries.append(work)
        elif work.id in kept[work.parent]:
            entries.append(work)
            left[work.parent] -= 1
            if not left[work.parent]:
                entries.append(rests[work.parent])
    return entries


def _concern(work: Work) -> int:
    return list(_WORDS).index(work.state) if work.state in _WORDS else len(_WORDS)


def _rest(works: Sequence[Work]) -> Rest:
    counts = collections.Counter(_WORDS.get(work.state, work.state) for work in works)
    text = ", ".join(f"{number} {word}" for word, number in counts.items())
    return Rest(f"{len(works)} more: {text}")
