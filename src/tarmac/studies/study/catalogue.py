"""Find studies by path, name or prefix, or list them all."""

from __future__ import annotations

from pathlib import Path

from tarmac import runs
from tarmac.studies.study.kind import SEARCH
from tarmac.studies.study.study import Study


def list_studies(output: Path | None = None) -> tuple[list[Study], list[runs.BrokenRun]]:
    """Return a directory's studies, newest first, and the unreadable ones."""
    studies, broken = runs.Catalogue((SEARCH,), output).read(lambda run: Study.open(run.path))
    studies.sort(key=lambda study: study.record.created_at, reverse=True)
    return studies, broken


def find_study(reference: str, output: Path | None = None, storage: str | None = None) -> Study:
    """Find a study.

    Args:
        reference: Directory, name or id of the study; see `tarmac.runs.Catalogue.find`.
        output: Directory of the studies. Default: `tarmac.runs.default_output`.
        storage: URL of the study's database, if it holds a password.

    Raises:
        RequestError: No study matches, or more than one.
        TarmacError: The study cannot be read.
    """
    path = runs.Catalogue((SEARCH,), output).find(reference).path
    # Messages name a study as the user did.
    return Study.open(path.absolute() if Path(reference).is_absolute() else path, storage)
