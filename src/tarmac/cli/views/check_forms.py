"""Output formats of `tarmac check`, and the exit code of each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from tarmac.checks import Report


def choose_format(form: str | None, *, as_json: bool, brief: bool) -> str:
    """Return the name of the requested format, ``text`` by default.

    Raises:
        RequestError: Two different formats were requested.
    """
    short = {"--json": "json" if as_json else None, "--brief": "brief" if brief else None}
    forms = {name: chosen for name, chosen in short.items() if chosen is not None}
    if form is not None:
        forms[f"--format {form}"] = form
    if len({*forms.values()}) > 1:
        raise RequestError(f"{' and '.join(forms)} exclude each other")
    return next(iter(forms.values()), "text")


@contextlib.contextmanager
def errors_as(form: str) -> Iterator[None]:
    """Print errors in the block as the reader of the format expects.

    For a Nagios plugin, exit code 2 is CRITICAL; a check that could not be done exits with 3.
    """
    from tarmac.checks import UNKNOWN, render_nagios_error

    try:
        yield
    except TarmacError as error:
        if form != "nagios":
            raise
        click.echo(render_nagios_error(error.message), nl=False)
        click.get_current_context().exit(UNKNOWN)


def write_files(report: Report, *, page: Path | None, save: Path | None, names: bool) -> Report:
    """Write the requested files, and return the report to show.

    Args:
        report: Report of the finished check.
        page: Path of the HTML page to write. None: no page.
        save: Path of the report for later comparisons, written if the check succeeded. None: none.
        names: Whether user names and home directories stay in the report.

    Raises:
        StorageError: A file cannot be written.
    """
    from tarmac.checks import without_names
    from tarmac.files import write_text

    if not names:
        report = without_names(report, os.environ)
    if page is not None:
        from tarmac.pages import check_page, render_page

        write_text(page, render_page(check_page(report)))
    if save is not None:
        _save(save, report)
    return report


def _save(path: Path, report: Report) -> None:
    """Write a report completely; if the check failed, print a message instead.

    Raises:
        StorageError: The file cannot be written.
    """
    from tarmac.checks import FORMS
    from tarmac.files import write_text

    if report.ok:
        write_text(path, FORMS["json"].render(report))
    else:
        click.echo(f"{path} is not written, because this check did not succeed", err=True)


def print_as(form: str, report: Report, page: Path | None, *, verbose: bool) -> int:
    """Print a report, and return the exit code of the command.

    Args:
        form: ``text``, or a name of `tarmac.checks.FORMS`.
        report: Results of the check, which also decide the exit code.
        page: Path of the HTML page that was also written. None: no page.
        verbose: Whether the text shows where each operation ran.

    Raises:
        TarmacError: The output is full.
    """
    from tarmac.checks import FORMS
    from tarmac.cli.views.check import print_report
    from tarmac.cli.views.placements import print_placements

    if form in FORMS:
        click.echo(FORMS[form].render(report), nl=False)
        return FORMS[form].exit_code(report)
    print_report(report)
    if verbose:
        print_placements(report)
    if page is not None:
        click.echo(f"page {page}")
    return report.exit_code
