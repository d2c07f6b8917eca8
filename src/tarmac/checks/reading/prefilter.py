"""Finds many literals in many bytes, at hundreds of megabytes per second.

Every four bytes in a row are a number. The numbers of the literals' rarest four bytes are hashed
into a table, and NumPy looks up all numbers of a text in it. The cost hardly depends on the number
of literals. At a hit, the next four bytes must match as well. The case of letters is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tarmac.checks.rules.literals import SHORTEST

_GRAM = SHORTEST

# Bits set in each byte: turns capitals into small letters, and some signs into others, both in
# texts and in literals.
_FOLD = np.uint32(0x20202020)
_FOLD_BYTE = np.uint8(0x20)

# More bytes than any literal has.
_LONGEST = 2**10

# Knuth's multiplicative hash (The Art of Computer Programming, 3, 6.4), by its upper bits: enough
# for a table of 2^20 that holds hundreds, and that lies in a core's cache.
_FACTOR = np.uint32(2654435769)
_SHIFT = np.uint32(12)

# The characters that programs print, from the usual to the rare; a missing one counts as the
# rarest. The order affects only the speed.
_BY_FREQUENCY = " e0t1aoinsr2ldc.35468u79m_-:p/fghby,=k(v)w[]x'zjq"


class Prefilter:
    """A search for many literals in bytes.

    Args:
        literals: Literals in lower case, each of at least `SHORTEST` ASCII characters.
    """

    def __init__(self, literals: Iterable[str]) -> None:
        self._table = np.zeros(2 ** (32 - int(_SHIFT)), dtype=bool)
        self._by_gram: dict[int, list[tuple[bytes, int]]] = {}
        short, long = set[int](), set[int]()
        for text in dict.fromkeys(literals):
            literal = text.encode("ascii")
            width = _GRAM if len(literal) < 2 * _GRAM else 2 * _GRAM
            place = min(range(len(literal) - width + 1), key=lambda n: _usualness(text[n:]))
            gram = np.frombuffer(literal, "<u4", 1, place) | _FOLD
            self._table[_hashed(gram)] = True
            self._by_gram.setdefault(int(gram[0]), []).append((literal, place))
            window = np.frombuffer(literal, np.uint8, width, place) | _FOLD_BYTE
            (long if width > _GRAM else short).add(int.from_bytes(window.tobytes(), "little"))
        self._short = np.array(sorted(short), dtype="<u8")
        self._long = np.array(sorted(long), dtype="<u8")

    def find(self, data: bytes, start: int, stop: int) -> Iterator[tuple[int, str]]:
        """Yield the index and the text of each literal that begins before ``stop``, in order."""
        for place, gram in self._likely(data, start, min(len(data), stop + _LONGEST)):
            for literal, offset in self._by_gram[gram]:
                begin = place - offset
                if start <= begin < stop and data[begin : begin + len(literal)].lower() == literal:
                    yield begin, literal.decode("ascii")

    def _likely(self, data: bytes, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the indices of the literals' rarest bytes, and the number of the first four."""
        # Padded, so that eight bytes can be read wherever four match.
        text = data[start:stop] + bytes(2 * _GRAM)
        hits = []
        for offset in range(_GRAM):
            count = (len(text) - offset) // _GRAM
            numbers = np.frombuffer(text, "<u4", count, offset) | _FOLD
            hits.append(np.flatnonzero(self._table[_hashed(numbers)]) * _GRAM + offset)
        places = np.sort(np.concatenate(hits))
        places = places[places < stop - start]
        windows = np.frombuffer(text, np.uint8)[places[:, None] + np.arange(2 * _GRAM)]
        eight = (windows | _FOLD_BYTE).view("<u8").ravel()
        four = eight & np.uint64(0xFFFFFFFF)
        is_one = np.isin(eight, self._long) | np.isin(four, self._short)
        return list(
            zip((places[is_one] + start).tolist(), four[is_one].tolist(), strict=True),
        )


def _hashed(numbers: np.ndarray) -> np.ndarray:
    return (numbers * _FACTOR) >> _SHIFT


def _usualness(text: str) -> int:
    """Return how usual the first four characters of a text are, by their two rarest."""
    ranks = sorted(_BY_FREQUENCY.find(letter) % 64 for letter in text[:_GRAM])
    return -sum(ranks[-2:])
