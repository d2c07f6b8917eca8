"""The catalogue's patterns: each seen in a recorded text, and cheap on any other."""

from __future__ import annotations

import re
from re import _parser as parser  # type: ignore[attr-defined] # typeshed has the old name alone
from typing import TYPE_CHECKING

import pytest
from recorded import RECORDED

from pattern_steps import growth_of_steps
from tarmac.checks.reading import manner
from tarmac.checks.rules.catalogue import read_catalogue
from tarmac.checks.rules.patterns import all_patterns
from tarmac.checks.rules.wording import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tarmac.checks.evidence import Evidence

PATTERNS = all_patterns()
_PRINTED = [failure for failure in read_catalogue().values() if failure.text]

each_failure = pytest.mark.parametrize("failure", _PRINTED, ids=lambda failure: failure.code)

# Shorter ones stand in lines of all kinds, and cost a look each time.
_LITERAL = 6


def _lines(evidence: Evidence) -> Iterator[str]:
    inventory = evidence.inventory
    texts = [inventory.driver.nvml_error or "", *evidence.texts, *inventory.kernel_log]
    texts += [gpu.error or "" for gpu in inventory.gpus]
    texts += [probe.text for probe in evidence.probes]
    for text in texts:
        yield from text.splitlines()


@each_failure
def test_each_pattern_matches_a_line_of_a_recorded_text(failure):
    lines = [line for evidence in RECORDED[failure.code] for line in _lines(evidence)]
    for pattern in failure.text:
        assert any(re.search(pattern, line, re.IGNORECASE) for line in lines), pattern


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


def test_each_pattern_takes_a_time_that_grows_with_a_lines_length_and_no_faster():
    # It would grow fourfold where each place of a line looks at all that follows.
    growth = {each.source: growth_of_steps(each.regex.pattern, 250) for each in PATTERNS}
    assert {source: times for source, times in growth.items() if times > 3} == {}


def test_each_form_in_which_a_line_only_speaks_of_a_failure_takes_a_time_that_grows_no_faster():
    forms = {name: form for name, form in vars(manner).items() if isinstance(form, re.Pattern)}
    growth = {name: growth_of_steps(form.pattern, 200) for name, form in forms.items()}
    assert {name: times for name, times in growth.items() if times > 2.7} == {}


@pytest.mark.parametrize(
    "pattern", ["peer copy .* is wrong", r"[ \t]*\n[ \t]*no device", r"(\w+ )*="]
)
def test_a_pattern_that_looks_again_and_again_is_seen_by_its_steps(pattern):
    assert growth_of_steps(pattern, 100) > 3.5


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
