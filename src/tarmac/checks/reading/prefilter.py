"""Where in many bytes one of many literals may stand, at hundreds of megabytes per second.

Every four bytes in a row are a number. The numbers of the literals' rarest four bytes are hashed
into a table, and NumPy looks all numbers of a text up in it: the cost hardly depends on how many
literals there are. Upper and lower case are one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tarmac.checks.rules.literals import SHORTEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Prefilter"]

_GRAM = SHORTEST

# Of each byte: makes capitals small letters, and some signs others, of texts and literals alike.
_FOLD = np.uint32(0x20202020)

# Knuth's multiplicative hash (The Art of Computer Programming, 3, 6.4), by its upper bits: enough
# for a table of 2^20 that holds hundreds, and that lies in a core's cache.
_FACTOR = np.uint32(2654435769)
_SHIFT = np.uint32(12)

# Every letter, digit and sign that programs print, from the usual to the rare; what is not in it is
# as rare as the last. Only how fast it is depends on it.
_BY_FREQUENCY = " e0t1aoinsr2ldc.35468u79m_-:p/fghby,=k(v)w[]x'zjq"


class Prefilter:
    """Finds literals in bytes.

    Args:
        literals: In lower case, of `SHORTEST` ASCII characters or more.
    """

    def __init__(self, literals: Iterable[str]) -> None:
        self._table = np.zeros(2 ** (32 - int(_SHIFT)), dtype=bool)
        self._by_gram: dict[int, list[tuple[bytes, int]]] = {}
        for text in dict.fromkeys(literals):
            literal = text.encode("ascii")
            place = min(range(len(literal) - _GRAM + 1), key=lambda n: _usualness(text[n:]))
            gram = np.frombuffer(literal, "<u4", 1, place) | _FOLD
            self._table[_hashed(gram)] = True
            self._by_gram.setdefault(int(gram[0]), []).append((literal, place))
        self._grams = np.array(sorted(self._by_gram), dtype="<u4")

    def find(self, data: bytes, start: int, stop: int) -> Iterator[tuple[int, str]]:
        """Yield where literals stand, in order, and which; those that begin before ``stop``."""
        for place, gram in self._likely(data, start, min(len(data), stop + 2**10)):
            for literal, offset in self._by_gram[gram]:
                begin = place - offset
                if start <= begin < stop and data[begin : begin + len(literal)].lower() == literal:
                    yield begin, literal.decode("ascii")

    def _likely(self, data: bytes, start: int, stop: int) -> Sequence[tuple[int, int]]:
        """Return the places of the literals' rarest four bytes, and their numbers."""
        places, grams = [], []
        for offset in range(start, min(start + _GRAM, stop)):
            count = (stop - offset) // _GRAM
            if count <= 0 or not len(self._grams):
                continue
            numbers = np.frombuffer(data, "<u4", count, offset) | _FOLD
            (hits,) = np.nonzero(self._table[_hashed(numbers)])
            found = numbers[hits]
            is_one = (
                self._grams[np.minimum(np.searchsorted(self._grams, found), len(self._grams) - 1)]
                == found
            )
            places.append(hits[is_one] * _GRAM + offset)
            grams.append(found[is_one])
        if not places:
            return []
        every, numbers = np.concatenate(places), np.concatenate(grams)
        order = np.argsort(every)
        return list(zip(every[order].tolist(), numbers[order].tolist(), strict=True))


def _hashed(numbers: np.ndarray) -> np.ndarray:
    return (numbers * _FACTOR) >> _SHIFT


def _usualness(text: str) -> int:
    """Return how usual the first four characters of a text are, by the rarest two of them."""
    ranks = sorted(_BY_FREQUENCY.find(letter) % 64 for letter in text[:_GRAM])
    return -sum(ranks[-2:])
