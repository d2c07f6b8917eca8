"""The journal of a run: events of its tasks, as lines that outlive their writer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tarmac.errors import TarmacError, quoted
from tarmac.files import JournalLines, Shape, append_lines, drop_torn_line, read_lines
from tarmac.jobs.secret_marks import leave_marks
from tarmac.masking import hide_urls, without_known

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

# Further keys that readers need in events of these kinds.
_SHAPES = {
    "ended": Shape(_NEEDED | {"outcome": "text", "seconds": "seconds", "reason": "text"}, _ANY),
    "noted": Shape(_NEEDED | {"reason": "text"}, _ANY),
    # Before 0.2, this event had no name.
    "retried": Shape({"event": "text", "task": "whole number"}, _ANY | {"name": "text"}),
}
# Texts of programs and services, which may repeat secrets.
_WORDS = ("reason", "problems", "message", "notes")
# Keys of the end of a pipeline's task, whose result a later runner may need.
_RESULT = Shape({"input": "text", "why": "text or null"})


class Journal:
    """An append-only file of events; the kernel has an event when `write` returns.

    An event of success, with all earlier events, is then on the disk. Secrets that this process has
    resolved and queries of URLs are redacted in all texts. Marks of the secrets are written beside
    the journal before the event.

    The key ``at`` is the time of writing, in seconds since 1970 by this machine's clock. Events
    before 0.2 have no such key.

    Args:
        path: Path of the file; each event is a line of JSON.
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
            StorageError: The event could not be written.
        """
        self.write_all([{"event": event, **values}])

    def write_all(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Append several events, all or none.

        Raises:
            StorageError: The events could not be written.
        """
        if events:
            at = round(time.time(), 3)
            leave_marks(self._path.parent)
            # A success is never repeated, so its event must survive a power cut.
            is_durable = any(event.get("outcome") == "succeeded" for event in events)
            lines = [{**_without_secrets(event), "at": at} for event in events]
            append_lines(self._path, lines, is_durable=is_durable)


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a journal, for a runner that resumes the run.

    Raises:
        StorageError: The journal cannot be read.
        TarmacError: A line of the journal is damaged.
    """
    lines = read_events(path)
    for line in lines.damaged:
        raise TarmacError(
            str(line),
            hint="Without that line its task counts as not finished, and runs again:\n"
            f"sed -i.damaged {line.number}d {quoted(path)}",
        )
    yield from lines.values


def read_events(path: Path) -> JournalLines:
    """Return the events and the damaged lines of a journal.

    An incomplete last line is ignored: its event was never reported.

    Raises:
        StorageError: The journal cannot be read.
    """
    return read_lines(path, problem_of)


def _without_secrets(event: Mapping[str, Any]) -> dict[str, Any]:
    words = {name: _hidden(event[name]) for name in _WORDS if event.get(name)}
    return {**event, **words}


def _hidden(words: Any) -> Any:
    if isinstance(words, str):
        return hide_urls(without_known(words))
    return [*map(_hidden, words)] if isinstance(words, list | tuple) else words


def problem_of(value: Any) -> str | None:
    """Return why a line's value is no event; None for an event."""
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
