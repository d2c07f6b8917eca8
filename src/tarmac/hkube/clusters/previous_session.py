"""The attempts of earlier sessions on a cluster, from the run's journal."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tarmac.jobs import directory_name, read_journal


@dataclasses.dataclass(slots=True)
class _Known:
    """The attempts of a task.

    Attributes:
        index: Index of the task in the run, from 0.
        last: Number of the task's last attempt.
        settled: Number of the last attempt whose end is in the journal.
        spent: Number of failed attempts, without disturbed ones, since the task last ended.
    """

    index: int
    last: int = 0
    settled: int = 0
    spent: int = 0


class PreviousSession:
    """The attempts of earlier sessions.

    Args:
        run: Directory of the run, whose journal is read if it exists.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._known: dict[str, _Known] = {}
        self._last: dict[int, int] = {}
        path = run / "journal.jsonl"
        for event in read_journal(path) if path.exists() else ():
            self._note(event)

    def number(self, index: int) -> int:
        """Return an unused number for another attempt of a task.

        Args:
            index: Index of the task in the run, from 0.
        """
        self._last[index] = self._last.get(index, 0) + 1
        return self._last[index]

    def has_had(self, index: int, number: int) -> None:
        """Note an attempt that the engine still has and that the journal may lack."""
        self._last[index] = max(self._last.get(index, 0), number)

    def is_settled(self, name: str, index: int, number: int) -> bool:
        """Whether the end of an attempt is in the journal."""
        known = self._known.get(name)
        return known is not None and known.index == index and number <= known.settled

    def spent(self, name: str) -> int:
        """Return the number of a task's failed attempts, without disturbed ones."""
        known = self._known.get(name)
        return 0 if known is None else known.spent

    def unsettled(self, name: str) -> tuple[Path, int] | None:
        """Return the directory of a task and the number of its attempt without an end.

        None if the journal has the end of every attempt.
        """
        known = self._known.get(name)
        if known is None or known.last <= known.settled:
            return None
        return self._run / "tasks" / directory_name(known.index, name), known.last

    def _note(self, event: dict[str, Any]) -> None:
        name, index = event.get("name"), event["task"]
        if name is None:
            return
        known = self._known.get(name)
        if known is None or known.index != index:
            known = self._known[name] = _Known(index)
        number = event.get("attempt", 0)
        known.last = max(known.last, number)
        self._last[index] = max(self._last.get(index, 0), number)
        if event["event"] == "retried":
            known.settled = max(known.settled, number)
            known.spent += "cause" not in event
        elif event["event"] == "ended" and ("why" in event or event["outcome"] != "succeeded"):
            # An orphaned attempt that a cleanup ends may still have a result to use.
            known.settled, known.spent = known.last, 0
