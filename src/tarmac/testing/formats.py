"""A conformance suite for formats of job files: `tarmac.formats.Format`.

Example::

    import pytest
    from tarmac.testing.formats import FORMAT_CHECKS, FormatCase

    @pytest.mark.parametrize("check", FORMAT_CHECKS)
    def test_mine_is_a_format(check):
        check(FormatCase(format=MINE, samples=["run: [echo, hello]"], mistakes=["run: {a: b}"]))

Each check raises an `AssertionError` that describes the failure and shows the text.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.documents import parse_document
from tarmac.errors import RequestError
from tarmac.jobs import Job, plan_tasks

if TYPE_CHECKING:
    from tarmac.formats import Format, Reading

_NAME = "sample"
_OWN = "{name: hello, command: [echo, hello], resources: {cpus: 1}}"

# Values that a program, a user or another version may have written to a file.
_JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**30, 1e300, "", " ", "x", "{{ x }}", "{", "$A", "\u00e4", "../..",
    "a" * 5000, "https://[", [], [None], [[]], {}, {"": None}, {"x": {"y": []}},
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class FormatCase:
    """A format under test.

    Attributes:
        format: Job file format under test.
        samples: Texts of valid files with jobs. More keys of the format give a better check.
        mistakes: Texts of files that look like the format and are invalid.
        num_mutations: Number of mutated copies of each sample to read. Default 300.
    """

    format: Format
    samples: Sequence[str]
    mistakes: Sequence[str] = ()
    num_mutations: int = 300

    def read(self, text: str) -> Reading:
        """Read a text with the format.

        Raises:
            RequestError: The text is invalid.
        """
        return self.format.read([parse_document(text, _NAME)], {})


def check_samples_are_recognized_and_read(case: FormatCase) -> None:
    """Check that samples look like the format, and hold jobs."""
    assert case.samples, "the case has no samples"
    for text in case.samples:
        assert case.format.looks_like(parse_document(text, _NAME).value), f"unknown:\n{text}"
        reading = case.read(text)
        assert reading.format == case.format.name, f"the format is {reading.format!r}"
        assert reading.jobs, f"no jobs in:\n{text}"
        assert all(isinstance(job, Job) for job in reading.jobs), f"more than jobs in:\n{text}"


def check_tarmac_job_files_are_not_claimed(case: FormatCase) -> None:
    """Check that a job file in Tarmac's own format does not look like another format."""
    looks_like = case.format.looks_like(parse_document(_OWN, _NAME).value)
    assert looks_like == (case.format.name == "tarmac"), f"looks like {case.format.name}: {_OWN}"


def check_recognition_accepts_any_value(case: FormatCase) -> None:
    """Check that ``looks_like``, ``is_part`` and ``joins`` accept any value."""
    for value in (*_JUNK, *(value for text in case.samples for value in _mutations(case, text))):
        assert case.format.looks_like(value) in {True, False}, f"not a bool for: {value!r:.500}"
        assert case.format.is_part(value) in {True, False}, f"not a bool for: {value!r:.500}"
        assert case.format.joins(value) in {True, False}, f"not a bool for: {value!r:.500}"


def check_any_document_gives_jobs_or_a_request_error(case: FormatCase) -> None:
    """Check that any file that looks like the format gives jobs or a RequestError."""
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
            raise AssertionError(f"{type(error).__name__}: {error}, for:\n{text}") from error


def check_errors_name_line_and_column(case: FormatCase) -> None:
    """Check that the error for an invalid file begins with name, line and column."""
    for text in case.mistakes:
        assert case.format.looks_like(parse_document(text, _NAME).value), f"unknown:\n{text}"
        message = _error_on(case, text)
        assert message is not None, f"no error for:\n{text}"
        place = re.match(rf"{_NAME}:(\d+):\d+: \S", message)
        assert place is not None, f"no line and column in {message}, for:\n{text}"
        assert int(place[1]) <= text.count("\n") + 1, f"no such line: {message}, for:\n{text}"


def _error_on(case: FormatCase, text: str) -> str | None:
    try:
        case.read(text)
    except RequestError as error:
        return str(error)
    return None


def check_written_jobs_are_read_unchanged(case: FormatCase) -> None:
    """Check that written jobs are read as the same jobs, and written again as the same text."""
    if case.format.write is None:
        return
    for text in case.samples:
        jobs = case.read(text).jobs
        written = case.format.write(jobs, Path()).text
        assert case.format.looks_like(parse_document(written, _NAME).value), f"unknown:\n{written}"
        again = case.read(written).jobs
        for old, new in zip(jobs, again, strict=True):
            before, after = _meaning(old), _meaning(new)
            assert before == after, f"{before}\nbecame\n{after}\nin\n{written}"
        assert case.format.write(again, Path()).text == written, f"changes again:\n{written}"


FORMAT_CHECKS: tuple[Callable[[FormatCase], None], ...] = (
    check_samples_are_recognized_and_read,
    check_tarmac_job_files_are_not_claimed,
    check_recognition_accepts_any_value,
    check_any_document_gives_jobs_or_a_request_error,
    check_errors_name_line_and_column,
    check_written_jobs_are_read_unchanged,
)


def _meaning(job: Job) -> dict[str, Any]:
    return job.model_dump(mode="json", by_alias=True, exclude={"original"}, exclude_defaults=True)


def _mutations(case: FormatCase, text: str) -> Iterator[Any]:
    """Yield copies of a text's value with one to three mutations, reproducible by the text."""
    value = parse_document(text, _NAME).value
    draw = random.Random(text)  # noqa: S311 - no secret depends on it
    for _ in range(case.num_mutations):
        holder = [copy.deepcopy(value)]
        for _ in range(draw.randint(1, 3)):
            _mutate(holder, draw)
        yield holder[0]


def _mutate(root: list[Any], draw: random.Random) -> None:
    """Replace, remove, rename, move or repeat a random value in a nested list."""
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
