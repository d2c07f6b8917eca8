"""What a format of job files promises: a conformance suite for `tarmac.formats.Format`.

Example::

    import pytest
    from tarmac.testing.formats import FORMAT_CHECKS, FormatCase

    @pytest.mark.parametrize("check", FORMAT_CHECKS)
    def test_mine_is_a_format(check):
        check(FormatCase(format=MINE, samples=["run: [echo, hello]"], mistakes=["run: {a: b}"]))

Each check raises an `AssertionError` that says what is wrong, and with which text.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import json
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.documents import parse_document
from tarmac.errors import RequestError
from tarmac.jobs import Job, plan_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tarmac.formats import Format, Reading

_NAME = "sample"
_OWN = "{name: hello, command: [echo, hello], resources: {cpus: 1}}"

# What a program, a hand or another version may have put into a file.
_JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**30, 1e300, "", " ", "x", "{{ x }}", "{", "$A", "\u00e4", "../..",
    "a" * 5000, "https://[", [], [None], [[]], {}, {"": None}, {"x": {"y": []}},
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class FormatCase:
    """A format to be checked.

    Attributes:
        format: Job file format under test.
        samples: Texts of files that hold jobs and are right; the more of its keys they have, the
            better it is checked.
        mistakes: Texts of files that look like the format and are wrong.
        num_mutations: How many changed copies of each sample are read.
    """

    format: Format
    samples: Sequence[str]
    mistakes: Sequence[str] = ()
    num_mutations: int = 300

    def read(self, text: str) -> Reading:
        """Read a text as the format's.

        Raises:
            RequestError: It is wrong.
        """
        return self.format.read([parse_document(text, _NAME)], {})


def check_samples_are_known_and_read(case: FormatCase) -> None:
    """Samples look like the format, and hold jobs."""
    assert case.samples, "no sample is given"
    for text in case.samples:
        assert case.format.looks_like(parse_document(text, _NAME).value), f"is not known:\n{text}"
        reading = case.read(text)
        assert reading.format == case.format.name, f"the reading says {reading.format!r}"
        assert reading.jobs, f"no job is in:\n{text}"
        assert all(isinstance(job, Job) for job in reading.jobs), f"not only jobs are in:\n{text}"


def check_jobs_of_tarmacs_own_form_are_left_alone(case: FormatCase) -> None:
    """A job file of Tarmac's own form does not look like any other format."""
    looks_like = case.format.looks_like(parse_document(_OWN, _NAME).value)
    assert looks_like == (case.format.name == "tarmac"), f"looks like {case.format.name}: {_OWN}"


def check_any_value_may_be_asked_about(case: FormatCase) -> None:
    """Whether a document looks like the format, is a part, or joins can be asked of any value."""
    for value in (*_JUNK, *(value for text in case.samples for value in _mutations(case, text))):
        assert case.format.looks_like(value) in {True, False}, f"neither yes nor no: {value!r:.500}"
        assert case.format.is_part(value) in {True, False}, f"neither yes nor no: {value!r:.500}"
        assert case.format.joins(value) in {True, False}, f"neither yes nor no: {value!r:.500}"


def check_any_document_makes_jobs_or_a_designed_error(case: FormatCase) -> None:
    """Whatever a file that looks like the format holds: jobs, or an error of Tarmac's."""
    for value in (value for text in case.samples for value in _mutations(case, text)):
        if not case.format.looks_like(value):
            continue
        text = json.dumps(value)
        try:
            for job in case.read(text).jobs:
                collections.deque(plan_tasks(job, Path()), maxlen=0)
        except RequestError:
            continue
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}, on:\n{text}") from error


def check_mistakes_are_shown_where_they_are(case: FormatCase) -> None:
    """The error on a file that is wrong begins with its name, line and column."""
    for text in case.mistakes:
        assert case.format.looks_like(parse_document(text, _NAME).value), f"is not known:\n{text}"
        message = _error_on(case, text)
        assert message is not None, f"nothing is said on:\n{text}"
        place = re.match(rf"{_NAME}:(\d+):\d+: \S", message)
        assert place is not None, f"no line and column in {message}, on:\n{text}"
        assert int(place[1]) <= text.count("\n") + 1, f"no such line: {message}, on:\n{text}"


def _error_on(case: FormatCase, text: str) -> str | None:
    try:
        case.read(text)
    except RequestError as error:
        return str(error)
    return None


def check_what_is_written_is_read_as_the_same_jobs(case: FormatCase) -> None:
    """Jobs that were read and written are read as the same, and written as the same again."""
    if case.format.write is None:
        return
    for text in case.samples:
        jobs = case.read(text).jobs
        written = case.format.write(jobs, Path()).text
        assert case.format.looks_like(parse_document(written, _NAME).value), f"unknown:\n{written}"
        again = case.read(written).jobs
        for old, new in zip(jobs, again, strict=True):
            before, after = _meaning(old), _meaning(new)
            assert before == after, f"{before}\nbecame\n{after}\nby\n{written}"
        assert case.format.write(again, Path()).text == written, f"changes again:\n{written}"


FORMAT_CHECKS: tuple[Callable[[FormatCase], None], ...] = (
    check_samples_are_known_and_read,
    check_jobs_of_tarmacs_own_form_are_left_alone,
    check_any_value_may_be_asked_about,
    check_any_document_makes_jobs_or_a_designed_error,
    check_mistakes_are_shown_where_they_are,
    check_what_is_written_is_read_as_the_same_jobs,
)


def _meaning(job: Job) -> dict[str, Any]:
    return job.model_dump(mode="json", by_alias=True, exclude={"original"}, exclude_defaults=True)


def _mutations(case: FormatCase, text: str) -> Iterator[Any]:
    """Yield copies of a text's value with one to three parts changed, always the same ones."""
    value = parse_document(text, _NAME).value
    draw = random.Random(text)  # noqa: S311 - no secret depends on it
    for _ in range(case.num_mutations):
        holder = [copy.deepcopy(value)]
        for _ in range(draw.randint(1, 3)):
            _mutate(holder, draw)
        yield holder[0]


def _mutate(root: list[Any], draw: random.Random) -> None:
    """Replace, remove, rename or repeat one value somewhere in a nested list."""
    places = [*_places(root)]
    holder, key = draw.choice(places)
    kind = draw.choice(("replace", "replace", "remove", "rename", "move", "repeat"))
    if kind == "remove" and holder is not root:
        del holder[key]
    elif kind == "rename" and isinstance(holder, dict):
        holder[draw.choice(("x", f"{key}s", str(key).upper()))] = holder.pop(key)
    elif kind == "move":
        other, place = draw.choice(places)
        holder[key] = copy.deepcopy(other[place])
    elif kind == "repeat" and isinstance(holder, list) and holder is not root:
        holder.append(copy.deepcopy(holder[key]))
    else:
        holder[key] = copy.deepcopy(draw.choice(_JUNK))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        yield value, key
        if isinstance(part, (dict, list)):
            yield from _places(part)
