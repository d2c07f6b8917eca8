"""Find studies by path, name or prefix, or list them all."""

from __future__ import annotations

import os
from pathlib import Path

from tarmac import runs
from tarmac.errors import RequestError, TarmacError
from tarmac.files import first_own
from tarmac.studies.study.kind import SEARCH
from tarmac.studies.study.study import Study
from tarmac.wording import in_one_line


def list_studies(output: Path | None = None) -> tuple[list[Study], list[tuple[Path, str]]]:
    """Return a directory's studies, newest first, and the reasons why others cannot be read."""
    studies, broken = runs.Catalogue((SEARCH,), output).read(lambda run: Study.open(run.path))
    studies.sort(key=lambda study: study.record.created_at, reverse=True)
    return studies, [(run.path, run.reason) for run in broken]


def find_study(reference: str, output: Path | None = None, storage: str | None = None) -> Study:
    """Find a study.

    Args:
        reference: A path, a name, a prefix of a name, or ``"latest"``: the newest study that
            belongs to no other user.
        output: Directory of the studies. Default: `tarmac.runs.default_output`.
        storage: URL of the study's database, if it holds a password.

    Raises:
        RequestError: No study matches, or more than one.
        TarmacError: The study cannot be read.
    """
    runs.refuse_empty(reference)
    root = output or runs.default_output()
    for path in (Path(reference), root / reference):
        if os.path.exists(path / "study.json"):  # noqa: PTH110 - False if access is denied
            return Study.open(path, storage)
    studies, broken = list_studies(root)
    fitting = [study for study in studies if study.name.startswith(reference)]
    if reference == "latest" and studies:
        newest = first_own(study.path / "study.json" for study in studies)
        fitting = [study for study in studies if newest is not None and study.path == newest.parent]
    if len(fitting) == 1:
        return Study.open(fitting[0].path, storage)
    if fitting:
        names = "\n".join(in_one_line(study.name) for study in fitting)
        raise RequestError(f"study {reference!r} is not unique in {root}", hint=names)
    for path, reason in broken:
        if path.name.startswith(reference):
            raise TarmacError(f"{path.name} cannot be read: {reason}")
    names = "\n".join(in_one_line(study.name) for study in studies[:10])
    hint = (
        f"Newest there:\n{names}"
        if names
        else "No study is there. Name where studies lie: --output DIR, or TARMAC_RUNS"
    )
    raise RequestError(f"there is no study {reference!r} in {root}", hint=hint)
