"""What has happened to the tasks of a run, as lines that survive their writer."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any

from tarmac.errors import TarmacError
from tarmac.files import append_lines, drop_torn_line, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from tarmac.files import JournalLines

__all__ = ["Journal", "read_events", "read_journal"]


class Journal:
    """Appends events to a file; each is in the kernel's hands when `write` returns.

    Each says under ``at`` when it was written, in seconds since 1970 by this machine's clock. Until
    0.2 none did.

    Args:
        path: The file.
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
            append_lines(self._path, [{**event, "at": at} for event in events])


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield a journal's events, for a run that is to go on.

    Raises:
        StorageError: It cannot be read.
        TarmacError: A line is damaged; what it said is not guessed.
    """
    found = read_events(path)
    for line in found.damaged:
        raise TarmacError(
            str(line),
            hint="Without that line its task counts as not done, and is done again:\n"
            f"sed -i.damaged {line.number}d {shlex.quote(str(path))}",
        )
    yield from found.values


def read_events(path: Path) -> JournalLines:
    """Return a journal's events, and lines that are none.

    A last line that its writer could not end is left out, for it never was.

    Raises:
        StorageError: It cannot be read.
    """
    return read_lines(path, _problem)


def _problem(value: Any) -> str | None:
    if not isinstance(value, dict):
        return "no event"
    # Until 0.2 a line on another attempt had no name.
    needed = ("event", "task") if value.get("event") == "retried" else ("event", "task", "name")
    missing = [key for key in needed if key not in value]
    missing += ["outcome"] if value.get("event") == "ended" and "outcome" not in value else []
    return f"an event without {', '.join(missing)}" if missing else None
