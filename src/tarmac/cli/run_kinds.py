"""The kinds of run that commands know: the one table that joins the rooms' own descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tarmac.runs import Catalogue

__all__ = ["KIND_NAMES", "catalogue_of"]

KIND_NAMES = ("training", "search", "job")


def catalogue_of(kinds: Sequence[str], output: Path | None) -> Catalogue:
    """Return the catalogue of runs of some kinds.

    Args:
        kinds: Of `KIND_NAMES`; all if none is given.
        output: Where the runs lie; `tarmac.runs.default_output` if not given.
    """
    from tarmac.jobs import JOB
    from tarmac.runs import TRAINING, Catalogue
    from tarmac.studies import SEARCH

    known = (TRAINING, SEARCH, JOB)
    return Catalogue([kind for kind in known if kind.name in (kinds or KIND_NAMES)], output)
