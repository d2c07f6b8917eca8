"""Looks at the devices before a training or a job, and puts what was seen beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tarmac.checks import quick_check
from tarmac.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tarmac.checks import Report
    from tarmac.runs import Run
    from tarmac.training import Plan, Reporter, Score

__all__ = ["check_into", "checked"]


def checked(reporter: Reporter, *, quiet: bool) -> Reporter:
    """Do the quick check, say what failed, and return a reporter that stores it in the run.

    Args:
        reporter: Is told the rest.
        quiet: Say nothing.
    """
    return _Storing(reporter, _look(quiet=quiet))


def check_into(run: Path, *, quiet: bool) -> None:
    """Do the quick check, say what failed, and store it in a run's directory."""
    _store(_look(quiet=quiet), run)


def _look(*, quiet: bool) -> Report:
    report = quick_check()
    if not quiet:
        for finding in report.findings:
            if finding.level == "failure":
                where = ", ".join(finding.where)
                click.secho(f"check: {finding.title} ({where}). ", fg="yellow", nl=False)
                click.echo(f"What to do: tarmac check --explain {finding.code}")
    return report


def _store(report: Report, run: Path) -> None:
    write_text(run / "check.json", report.model_dump_json(indent=2) + "\n")


class _Storing:
    """Writes the check's report into a run's directory when it starts."""

    def __init__(self, reporter: Reporter, report: Report) -> None:
        self._report = report
        self.downloading = reporter.downloading
        self._started = reporter.started
        self.stepped: Callable[[int, int, Callable[[], Score]], None] = reporter.stepped
        self.epoch_done: Callable[[Mapping[str, float]], None] = reporter.epoch_done
        self.restarting = reporter.restarting

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        _store(self._report, run.path)
        self._started(plan, run, num_parameters)
