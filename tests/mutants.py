"""Mutates files by a seed, as a damaged disk, a broken transfer or an attacker would."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from tarmac.errors import TarmacError

# So many mutants of each file a test reads; `TARMAC_MUTANTS` asks for another number.
NUM_MUTANTS = int(os.environ.get("TARMAC_MUTANTS", "10"))

_BLOCKS = (
    b"",
    b"\0",
    b"\xff" * 8,
    b"\x7f\xff\xff\xff",
    b"-1",
    b"9" * 30,
    b"(" * 40,
    b"[" * 400,
    b"{{",
    b"null",
    b"\xed\xa0\x80",
    b"\r\n",
    b"'\"",
    b"../..",
    b": ",
    b"&a *a",
    b"NaN",
    b"1e999",
)


def mutants(content: bytes, name: str, count: int = NUM_MUTANTS) -> list[bytes]:
    """Return mutants of a file, the same ones each time.

    Args:
        content: The file's.
        name: The file's; another one draws other mutants.
        count: How many.
    """
    return [_mutant(content, random.Random(f"{name} {number}")) for number in range(count)]


def refused_mutants(content: bytes, name: str, read: Callable[[bytes], object]) -> int:
    """Read mutants of a file, and return how many were refused in words.

    Any other error than Tarmac's own fails, with the mutant's number.
    """
    refused = 0
    for number, mutant in enumerate(mutants(content, name)):
        try:
            read(mutant)
        except TarmacError:
            refused += 1
        except Exception as error:
            error.add_note(f"mutant {number} of {name}")
            raise
    return refused


def _mutant(content: bytes, draws: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draws.choice((1, 1, 1, 2, 5))):
        # Heads say what the rest is.
        end = len(changed) if draws.random() < 0.6 else min(len(changed), 200)
        at = draws.randrange(end + 1)
        upto = min(len(changed), at + draws.choice((1, 2, 4, 16, 300)))
        match draws.randrange(7):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draws.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                del changed[at:upto]
            case 3:
                changed[at:at] = changed[at:upto] * draws.choice((1, 2, 50))
            case 4:
                changed[at:at] = draws.choice(_BLOCKS)
            case 5:
                block = draws.choice(_BLOCKS)
                changed[at : at + len(block)] = block
            case _:
                changed[at:upto] = draws.randbytes(upto - at)
    return bytes(changed)
