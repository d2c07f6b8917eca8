"""In which form `tarmac check` prints its report, and how it ends."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import click

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tarmac.checks import Report


def choose_format(form: str | None, *, as_json: bool, brief: bool) -> str:
    """Return the name of the form that was asked for, ``text`` by default.

    Raises:
        RequestError: Two were asked for.
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
    """Let errors end a check as what reads its form expects.

    A Nagios plugin's exit code 2 is CRITICAL: where nothing could be looked at, it is 3.
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
    """Write what was asked to be written, and return the report as it is to be shown.

    Args:
        report: What was seen and concluded.
        page: Where a page is written.
        save: Where the report is kept for later comparisons, if the check ended well.
        names: Whether names of users and homes stay in it.

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
    """Write a report whole, or, where the check did not end well, nothing, and say so.

    Raises:
        StorageError: It cannot be written.
    """
    from tarmac.checks import FORMS
    from tarmac.files import write_text

    if report.ok:
        write_text(path, FORMS["json"].render(report))
    else:
        click.echo(f"{path} is not written: this machine is no example to others", err=True)


def print_as(form: str, report: Report, page: Path | None, *, verbose: bool) -> int:
    """Print a report, and return the exit code of the command.

    Args:
        form: ``text``, or of `tarmac.checks.FORMS`.
        report: Results of the check, which also decide the exit code.
        page: Where a page was written as well.
        verbose: Whether text says where each operation ran.

    Raises:
        TarmacError: What is printed to is full.
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
