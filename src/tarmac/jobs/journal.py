"""What has happened to the tasks of a run, as lines that survive their writer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tarmac.errors import TarmacError, quoted
from tarmac.files import Shape, append_lines, drop_torn_line, read_lines
from tarmac.jobs.secret_marks import leave_marks
from tarmac.masking import hide_urls, without_known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from tarmac.files import JournalLines

_OUTCOMES = ("succeeded", "failed", "skipped", "interrupted")

_ANY = {
    "at": "seconds",
    "attempt": "whole number",
    "attempts": "whole number",
    "cause": "text or null",
    "cpus": "number or null",
    "directory": "path within the run",
    "exit_code": "whole number or null",
    "gpus": "texts or null",
    "host": "text",
    "place": "text",
    "reason": "text",
    "seconds": "seconds",
}
_NEEDED = {"event": "text", "task": "whole number", "name": "text"}
_EVENT = Shape(_NEEDED, _ANY)

# What readers of an event of a kind rely on beside that.
_SHAPES = {
    "ended": Shape(_NEEDED | {"outcome": "text", "seconds": "seconds", "reason": "text"}, _ANY),
    "noted": Shape(_NEEDED | {"reason": "text"}, _ANY),
    # Until 0.2 such a line had no name.
    "retried": Shape({"event": "text", "task": "whole number"}, _ANY | {"name": "text"}),
}
# What is told in words, of programs and services that may repeat what they were given.
_WORDS = ("reason", "problems", "message", "notes")
# The end of a pipeline's task, whose result another session may need.
_RESULT = Shape({"input": "text", "why": "text or null"})


class Journal:
    """Appends events to a file; each is in the kernel's hands when `write` returns.

    That a task has succeeded is on the disk then, and all that was written before. Secrets that
    this process has resolved are in no event's words, nor are queries of URLs. Marks of them lie
    beside it as soon as an event says that a task has one.

    Each says under ``at`` when it was written, in seconds since 1970 by this machine's clock. Until
    0.2 none did.

    Args:
        path: File that events are appended to, a line of JSON for each.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Journal:
        drop_torn_line(self._path)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def write(self, event: str, **values: Any) -> None:
        """Append an event.

        Raises:
            StorageError: It could not be written.
        """
        self.write_all([{"event": event, **values}])

    def write_all(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Append events, all or none.

        Raises:
            StorageError: They could not be written.
        """
        if events:
            at = round(time.time(), 3)
            leave_marks(self._path.parent)
            # What has succeeded is never done again, so it must be there after a power cut too.
            is_durable = any(event.get("outcome") == "succeeded" for event in events)
            lines = [{**_without_secrets(event), "at": at} for event in events]
            append_lines(self._path, lines, is_durable=is_durable)


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield a journal's events, for a run that is to go on.

    Raises:
        StorageError: It cannot be read.
        TarmacError: A line is damaged; what it said is not guessed.
    """
    lines = read_events(path)
    for line in lines.damaged:
        raise TarmacError(
            str(line),
            hint="Without that line its task counts as not done, and is done again:\n"
            f"sed -i.damaged {line.number}d {quoted(path)}",
        )
    yield from lines.values


def read_events(path: Path) -> JournalLines:
    """Return a journal's events, and lines that are none.

    A last line that its writer could not end is left out, for it never was.

    Raises:
        StorageError: It cannot be read.
    """
    return read_lines(path, _problem)


def _without_secrets(event: Mapping[str, Any]) -> dict[str, Any]:
    words = {name: _hidden(event[name]) for name in _WORDS if event.get(name)}
    return {**event, **words}


def _hidden(words: Any) -> Any:
    if isinstance(words, str):
        return hide_urls(without_known(words))
    return [*map(_hidden, words)] if isinstance(words, list | tuple) else words


def _problem(value: Any) -> str | None:
    kind = value.get("event") if isinstance(value, dict) else None
    shape = _SHAPES.get(kind, _EVENT) if isinstance(kind, str) else _EVENT
    problem = shape.problem_of(value)
    if problem is None and value["task"] < 0:
        problem = f"task is {value['task']}, expected a number from 0"
    if problem is None and kind == "ended":
        problem = _problem_of_end(value)
    return problem


def _problem_of_end(event: dict[str, Any]) -> str | None:
    if event["outcome"] not in _OUTCOMES:
        return f"outcome is {event['outcome']!r}, expected one of {', '.join(_OUTCOMES)}"
    if "why" not in event:
        return None
    result = event.get("result")
    is_place = isinstance(result, list) and [*map(type, result)] == [int, int]
    if event["outcome"] == "succeeded" and not is_place:
        return f"result is {result!r}, expected two whole numbers"
    return _RESULT.problem_of(event)
