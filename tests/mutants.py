"""Mutates files by a seed, as a damaged disk, a broken transfer or an attacker would."""

from __future__ import annotations

import contextlib
import os
import random
import re

from damaged_records import damaged

# Another one draws other mutants.
SEED = os.environ.get("TARMAC_FUZZ_SEED", "0")

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


# A word of YAML, JSON, TOML, a table or a log, and what may stand in its place.
_WORD = re.compile(rb"[\w.+-]+")
_WORDS = (
    *(
        b"null",
        b"-1",
        b"0",
        b"1e999",
        b"nan",
        b"99999999999999999999",
        b"9" * 5000,
        b"0x10",
        b"1_000",
    ),
    *(b"true", b"{}", b"[]", b'""', b"~", b"2026-01-01", b"!!binary aaaa", b"*a", b"<<", b"0.5"),
    *(b"[1, {a: b}]", b'{"a": [null]}', b"\xc3\xa9", b"\\ud800", b"/", b"..", b"{{ x }}", b"%"),
)


def mutant_of(content: bytes, name: str, number: int) -> bytes:
    """Return one mutant of a file, the same one each time.

    Args:
        content: The file's.
        name: The file's; another one draws other mutants.
        number: From 0.
    """
    draws = random.Random(f"{SEED} {name} {number}")
    if draws.random() < 0.3:
        # What is still JSON goes further into a reader than what is not.
        with contextlib.suppress(ValueError):
            return damaged(content, draws)
    if draws.random() < 0.4:
        return _with_other_lines(content, draws)
    return _mutant(content, draws)


def _with_other_lines(content: bytes, draws: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    for _ in range(draws.choice((1, 1, 2, 4))):
        at = draws.randrange(len(lines))
        words = [*_WORD.finditer(lines[at])]
        match draws.randrange(6):
            case 0 if len(lines) > 1:
                del lines[at]
            case 1:
                lines.insert(draws.randrange(len(lines)), lines[at])
            case 2:
                lines[at] = draws.choice((b"  ", b"- ", b"\t")) + lines[at]
            case _ if words:
                word = draws.choice(words)
                other = draws.choice((*_WORDS, draws.choice(words)[0]))
                lines[at] = lines[at][: word.start()] + other + lines[at][word.end() :]
    return b"".join(lines)


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
