"""Parts of one whole that are too many to be shown: a few of them, and how many there are beside.

A job has thousands of tasks, and who looks at a machine wants to see the machine. Those that need
somebody come first, then those that run.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.monitor.snapshot import Work

# Of one whole, in one place.
MAX_PARTS = 8

# By state, what is said of several; those that come first are shown first.
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
    """The parts of one whole that are not shown.

    Attributes:
        text: How many they are, and what they do: ``27 more: 20 run, 7 wait``.
    """

    text: str


def folded(works: Sequence[Work], most: int = MAX_PARTS) -> list[Work | Rest]:
    """Return works in their order; where one whole has too many parts, the rest as a count.

    Args:
        works: What is to be shown in one place.
        most: Parts of one whole that are shown; one more takes no more room than its count.
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
