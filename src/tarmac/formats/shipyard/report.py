"""The report on a configuration: problems, differences from Batch Shipyard, and refusals."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from tarmac.errors import RequestError
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
    """The problems, notes and refusals of a configuration.

    Args:
        configuration: Configuration to report on.
    """

    def __init__(self, configuration: Configuration) -> None:
        # By message: the places, in order.
        self._notes: dict[str, dict[str, None]] = {}
        self._refusals: dict[str, dict[str, None]] = {}
        self._of_job: dict[str, None] = {}
        self._configuration = configuration
        self._problems: list[_Problem] = []
        self._idle: dict[tuple[str, str], dict[str, None]] = {}

    def wrong(
        self, path: Path, message: str, hint: str = "", *, rests_on: Sequence[str] | None = None
    ) -> None:
        """Report a problem.

        Args:
            path: Keys that lead to the problem in the configuration.
            message: Value, then the rule that it breaks.
            hint: The nearest valid name, or the correct form. Default: none.
            rests_on: Keys below ``path`` that the check depends on. If one of them has a problem
                already, this problem is not reported. Default: any key.
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
        """Whether the report takes no further problem."""
        return len(self._problems) >= _MAX_PROBLEMS

    def note(self, path: Path, message: str) -> None:
        """Report a difference from Batch Shipyard."""
        self._add(self._notes, path, message)

    def refuse(self, path: Path, message: str) -> None:
        """Report why the jobs cannot run here."""
        self._add(self._refusals, path, message)
        self._of_job[f"{self._where(path)}: {self._configuration.show(path)}: {message}"] = None

    def take_refusals(self) -> list[str]:
        """Return the refusals since the last call."""
        refusals, self._of_job = [*self._of_job], {}
        return refusals

    def idle(self, path: Path, reason: str) -> None:
        """Report that a property has no effect here."""
        # Without indices, so that a property of many tasks is reported once.
        plain = re.sub(r"\[\d+\]", "[]", self._configuration.show(path))
        top, _, rest = plain.partition(".")
        top = top.removesuffix("[]")
        self._idle.setdefault((top, reason), {})[rest] = None

    def is_json(self, path: Path) -> bool:
        """Return whether the value at a path is in a JSON file."""
        name, _ = self._configuration.place_of(path)
        return name.endswith(".json")

    def _add(self, messages: dict[str, dict[str, None]], path: Path, message: str) -> None:
        messages.setdefault(message, {})[
            f"{self._where(path)}: {self._configuration.show(path)}"
        ] = None

    def finish(self) -> tuple[list[str], list[str]]:
        """Return the notes and the refusals.

        Returns:
            Notes on values that are read differently or have no effect, and refusals. Tarmac can
            still show and convert jobs with refusals.

        Raises:
            RequestError: The configuration has problems. The error lists the first 20, in the
                order of the files, and the number of the rest.
        """
        if self._problems:
            raise self._error()
        notes = _lines(self._notes)
        for (top, reason), names in self._idle.items():
            named = [name for name in names if name]
            listed = f"{top}: {', '.join(named)}" if named else top
            # A job stores no credentials.
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


def _lines(messages: Mapping[str, Mapping[str, None]]) -> list[str]:
    lines = []
    for message, places in messages.items():
        rest = len(places) - 1
        more = f" (and {rest} more place{'s' if rest > 1 else ''})" if rest else ""
        lines.append(f"{next(iter(places))}: {message}{more}")
    return lines
