"""The kinds of runs that commands know: the only table of the packages' own descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.runs import Catalogue, RunIndex, RunKind

KIND_NAMES = ("training", "search", "job")


def catalogue_of(kinds: Sequence[str], output: Path | None) -> Catalogue:
    """Return the catalogue of runs of some kinds.

    Args:
        kinds: Names among `KIND_NAMES`. Empty for all kinds.
        output: Directory of the runs. Default: `tarmac.runs.default_output`.
    """
    from tarmac.runs import Catalogue

    return Catalogue([_kind(name) for name in KIND_NAMES if name in (kinds or KIND_NAMES)], output)


def index_of(output: Path | None) -> RunIndex:
    """Return the index of all runs, which imports a kind's package only for runs it must read.

    Args:
        output: Directory of the runs. Default: `tarmac.runs.default_output`.
    """
    from tarmac.runs import RunIndex

    return RunIndex(KIND_NAMES, _kind, output)


def _kind(name: str) -> RunKind:
    if name == "job":
        from tarmac.jobs import JOB

        return JOB
    if name == "search":
        from tarmac.studies import SEARCH

        return SEARCH
    from tarmac.runs import TRAINING

    return TRAINING
