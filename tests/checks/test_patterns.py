"""The catalogue's patterns: each seen in a recorded text, and cheap on any other."""

from __future__ import annotations

import re
from re import _parser as parser  # type: ignore[attr-defined] # typeshed has the old name alone
from typing import TYPE_CHECKING, Any

import pytest
from recorded import RECORDED

from tarmac.checks.rules.catalogue import read_catalogue
from tarmac.checks.rules.wording import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tarmac.checks.evidence import Evidence

_PRINTED = [failure for failure in read_catalogue().values() if failure.text]

each_failure = pytest.mark.parametrize("failure", _PRINTED, ids=lambda failure: failure.code)

# Shorter ones stand in lines of all kinds, and cost a look each time.
_LITERAL = 6

_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def _lines(evidence: Evidence) -> Iterator[str]:
    inventory = evidence.inventory
    texts = [inventory.driver.nvml_error or "", *evidence.texts, *inventory.kernel_log]
    texts += [gpu.error or "" for gpu in inventory.gpus]
    texts += [probe.text for probe in evidence.probes]
    for text in texts:
        yield from text.splitlines()


def _parts(parts: Any) -> Iterator[tuple[str, Any]]:
    """Yield all operations of a parsed pattern, those within others too."""
    for operation, argument in parts:
        yield str(operation), argument
        for inner in argument if isinstance(argument, tuple | list) else (argument,):
            if isinstance(inner, parser.SubPattern):
                yield from _parts(inner)
            elif isinstance(inner, list):
                for way in inner:
                    yield from _parts(way) if isinstance(way, parser.SubPattern) else ()


@each_failure
def test_each_pattern_matches_a_line_of_a_recorded_text(failure):
    lines = [line for evidence in RECORDED[failure.code] for line in _lines(evidence)]
    for pattern in failure.text:
        assert any(re.search(pattern, line) for line in lines), pattern


@each_failure
def test_each_pattern_keeps_to_one_line(failure):
    for pattern in failure.text:
        assert not re.search(r"\\n|\\[Ss]\\[sS]|\(\?s", pattern)


@each_failure
def test_each_pattern_has_plain_characters_that_can_be_looked_for(failure):
    for pattern in failure.text:
        runs = "".join(
            chr(argument) if str(operation) == "LITERAL" else "\0"
            for operation, argument in parser.parse(pattern)
        )
        assert max(map(len, runs.split("\0"))) >= _LITERAL, pattern


@each_failure
def test_each_pattern_looks_at_a_character_a_few_times_at_most(failure):
    # A repeat within a repeat tries exponentially many ways; two without an end, as many as the
    # square of a line's length, but for those of digits, which stop at the next word.
    for pattern in failure.text:
        endless = 0
        for operation, argument in _parts(parser.parse(pattern)):
            if operation in _REPEATS:
                inner = {name for name, _ in _parts(argument[2])}
                assert argument[1] == 1 or not inner & set(_REPEATS), pattern
                is_number = "CATEGORY_DIGIT" in str(argument[2])
                endless += argument[1] is parser.MAXREPEAT and not is_number
        assert endless <= 1, pattern


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("[Ee]rror 802: system", "Error 802: system"),
        (r"has failed to (listen|bind)", "has failed to listen"),
        (r"connect (to \S+ )?returned .{1,40}, exceeded", "connect returned …, exceeded"),
        (r"(?<!NO_DEVICE:) no CUDA-capable device", "no CUDA-capable device"),
        (r"[Pp]rocess \d+ has [\d.]+ [GM]iB", "Process … has … GiB"),
        (r"^_+nvJitLink\w*$", "_nvJitLink"),
    ],
)
def test_a_pattern_is_shown_as_it_is_met(pattern, words):
    assert readable(pattern) == words
