"""What is to be said of a configuration: what is wrong, what is otherwise, what cannot be run."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.formats.shipyard.configuration import Configuration

Path = tuple[str | int, ...]

_MAX_SHOWN, _MAX_PROBLEMS = 20, 500


@dataclasses.dataclass(frozen=True)
class _Problem:
    order: tuple[int, int, int]
    path: Path
    line: str
    hint: str


class Report:
    """Gathers what is to be said.

    Args:
        configuration: What it is said of.
    """

    def __init__(self, configuration: Configuration) -> None:
        # By what is said, where first and how often.
        self._notes: dict[str, dict[str, None]] = {}
        self._refusals: dict[str, dict[str, None]] = {}
        self._of_job: dict[str, None] = {}
        self._configuration = configuration
        self._problems: list[_Problem] = []
        self._idle: dict[tuple[str, str], dict[str, None]] = {}

    def wrong(
        self, path: Path, message: str, hint: str = "", *, rests_on: Sequence[str] | None = None
    ) -> None:
        """Say that something is a mistake.

        Args:
            path: Keys that lead to the mistake in the configuration.
            message: Value, then the rule that it breaks.
            hint: The nearest valid name, or what to write instead.
            rests_on: Parts of what is there; where one is known to be wrong, this is not said. By
                default any part.
        """
        if self.is_full or self._is_known(path, rests_on):
            return
        name, place = self._configuration.place_of(path)
        shown = self._configuration.show(path)
        line = f"{name}:{place.line}:{place.column}: {f'{shown}: ' if shown else ''}{message}"
        order = (self._configuration.names.index(name), place.line, place.column)
        if not any(problem.line == line for problem in self._problems):
            self._problems.append(_Problem(order, path, line, hint))

    def _is_known(self, path: Path, parts: Sequence[str] | None) -> bool:
        below = (
            problem.path[len(path) :]
            for problem in self._problems
            if problem.path[: len(path)] == path
        )
        return any(rest and (parts is None or rest[0] in parts) for rest in below)

    @property
    def is_full(self) -> bool:
        """Whether no further problem is going to be said."""
        return len(self._problems) >= _MAX_PROBLEMS

    def note(self, path: Path, message: str) -> None:
        """Say what is otherwise than in Batch Shipyard."""
        self._add(self._notes, path, message)

    def refuse(self, path: Path, message: str) -> None:
        """Say what keeps the jobs from being run here."""
        self._add(self._refusals, path, message)
        self._of_job[f"{self._where(path)}: {self._configuration.show(path)}: {message}"] = None

    def take_refusals(self) -> list[str]:
        """Return what has been refused since this was last asked."""
        refusals, self._of_job = [*self._of_job], {}
        return refusals

    def idle(self, path: Path, reason: str) -> None:
        """Say that a property has no effect here."""
        # Of many tasks, the same property is said once.
        plain = re.sub(r"\[\d+\]", "[]", self._configuration.show(path))
        top, _, rest = plain.partition(".")
        top = top.removesuffix("[]")
        self._idle.setdefault((top, reason), {})[rest] = None

    def is_json(self, path: Path) -> bool:
        """Whether what is at a path is in a file of JSON."""
        name, _ = self._configuration.place_of(path)
        return name.endswith(".json")

    def _add(self, said: dict[str, dict[str, None]], path: Path, message: str) -> None:
        said.setdefault(message, {})[f"{self._where(path)}: {self._configuration.show(path)}"] = (
            None
        )

    def finish(self) -> tuple[list[str], list[str]]:
        """Return what there is to know, and what keeps the jobs from being run here.

        Returns:
            Notes on what is read otherwise and what has no effect, and refusals: jobs with any can
            be shown and converted all the same.

        Raises:
            RequestError: Something is wrong; all of it is said, in the order of the files.
        """
        if self._problems:
            raise self._error()
        notes = _lines(self._notes)
        for (top, reason), names in self._idle.items():
            named = [name for name in names if name]
            listed = f"{top}: {', '.join(named)}" if named else top
            # What is secret is in no job.
            kept = "not kept" if top == "credentials" else "kept"
            notes.append(f"{listed}: without effect here, and {kept}: {reason}")
        return notes, _lines(self._refusals)

    def _where(self, path: Sequence[str | int]) -> str:
        name, place = self._configuration.place_of(path)
        return f"{name}:{place.line}:{place.column}"

    def _error(self) -> RequestError:
        lines = []
        ordered = sorted(self._problems, key=lambda problem: problem.order)
        for problem in ordered[:_MAX_SHOWN]:
            lines.append(problem.line)
            if problem.hint:
                lines.append(f"  {problem.hint}")
        if len(ordered) > _MAX_SHOWN:
            lines.append(f"and {len(ordered) - _MAX_SHOWN} more")
        return RequestError(lines[0], hint="\n".join(lines[1:]) or None)


def _lines(said: Mapping[str, Mapping[str, None]]) -> list[str]:
    lines = []
    for message, places in said.items():
        rest = len(places) - 1
        more = f" (and {rest} more place{'s' if rest > 1 else ''})" if rest else ""
        lines.append(f"{next(iter(places))}: {message}{more}")
    return lines
