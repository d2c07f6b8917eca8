"""Dependencies between the tasks of a job: by name, by range, and by files."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.formats.shipyard.mapping.expand import Made
from tarmac.formats.shipyard.report import Path, Report
from tarmac.jobs import escape


class Needs:
    """The tasks that others may depend on.

    Args:
        made: All tasks of a job except its merge task.
        report: Receives dependencies on missing tasks.
    """

    def __init__(self, made: Sequence[Made], report: Report) -> None:
        self._report = report
        self._known = {task.id: task for task in made}
        self._numbers = {
            int(task.id): task for task in made if re.fullmatch(r"0|[1-9]\d{0,18}", task.id)
        }

    def of(self, task: Mapping[str, Any], path: Path) -> list[str]:
        """Return the names of the tasks that a task depends on, each once."""
        return [*dict.fromkeys([*self._named(task, path), *self._range(task, path)])]

    def _named(self, task: Mapping[str, Any], path: Path) -> list[str]:
        known = self._known
        needs = []
        for number, name in enumerate(task.get("depends_on") or ()):
            if name in known:
                needs.append(known[name].fields["name"])
            elif name is not None:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else ""
                where = (*path, "depends_on", number)
                self._report.wrong(where, f"{name!r} is no task of this job", hint)
        return needs

    def _range(self, task: Mapping[str, Any], path: Path) -> list[str]:
        numbers = self._numbers
        bounds = task.get("depends_on_range")
        where = (*path, "depends_on_range")
        if bounds is None:
            return []
        if len(bounds) != 2 or None in bounds or not bounds[0] <= bounds[1]:
            self._report.wrong(where, f"{bounds}: expected two numbers, the first and the last")
            return []
        needs = []
        # At most as many steps as tasks: the first missing number ends the loop.
        for number in range(bounds[0], bounds[1] + 1):
            if number not in numbers:
                self._report.wrong(where, f"{bounds}: there is no task '{number}'")
                return []
            needs.append(numbers[number].fields["name"])
        return needs


def transfer_files(made: Sequence[Made], job_id: str, report: Report) -> None:
    """Add inputs from other tasks to the tasks of a job, and needs for those tasks.

    Args:
        made: All tasks of a job, changed in place.
        job_id: ID of the job. Files of any other job are refused.
        report: Receives problems with missing tasks, notes and refusals.
    """
    known = {task.id: task for task in made}
    for task in made:
        for transfer in task.template.transfers:
            if transfer.job != job_id:
                report.refuse(
                    transfer.path,
                    f"files of the job {transfer.job!r} are not taken: let its task keep them "
                    "by output_data, and take them by azure_storage",
                )
                continue
            other = known.get(transfer.task)
            if other is None or other is task:
                near = difflib.get_close_matches(transfer.task, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else ""
                where = (*transfer.path, "task_id")
                problem = "is the task itself" if other is task else "is no task of this job"
                report.wrong(where, f"{transfer.task!r} {problem}", hint)
                continue
            place = f"run:{other.id}"
            _keep_all(other, place)
            entry: dict[str, Any] = {"from": place, "to": escape(transfer.to)}
            for name, patterns in (
                ("include", transfer.include),
                ("exclude", transfer.exclude),
            ):
                if patterns:
                    entry[name] = [*patterns]
            task.fields["inputs"] = [*task.fields.get("inputs", ()), entry]
            needs = [*task.fields.get("needs", ()), other.fields["name"]]
            task.fields["needs"] = [*dict.fromkeys(needs)]
            report.note(
                transfer.path,
                f"{transfer.task} is needed for it, and keeps its files for it in the run",
            )


def _keep_all(made: Made, place: str) -> None:
    kept = {"path": "*", "to": place, "when": "always"}
    outputs = made.fields.get("outputs", ())
    if kept not in outputs:
        made.fields["outputs"] = [*outputs, kept]
