"""The kinds of runs, for commands, pages, the server and the monitor.

A kind's package is imported only for a run of that kind: a training's page needs no Optuna.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.runs import Catalogue, Glancer, RunIndex, RunKind

# Record file of each kind, which marks a directory as a run of that kind.
RECORDS: Mapping[str, str] = {
    "training": "run.json",
    "search": "study.json",
    "job": "job-run.json",
}

KIND_NAMES = tuple(RECORDS)


def catalogue_of(kinds: Sequence[str], output: Path | None) -> Catalogue:
    """Return the catalogue of runs of some kinds.

    Args:
        kinds: Names among `KIND_NAMES`. Empty for all kinds.
        output: Directory of the runs. Default: `tarmac.runs.default_output`.
    """
    from tarmac.runs import Catalogue  # noqa: PLC0415

    kept = [load_kind(name) for name in KIND_NAMES if name in (kinds or KIND_NAMES)]
    return Catalogue(kept, output)


def index_of(output: Path | None) -> RunIndex:
    """Return the index of all runs, which imports a kind's package only for runs it must read.

    Args:
        output: Directory of the runs. Default: `tarmac.runs.default_output`.
    """
    from tarmac.runs import RunIndex  # noqa: PLC0415

    return RunIndex(KIND_NAMES, load_kind, output)


def kind_at(path: Path) -> str | None:
    """Return the name of the kind of a run's directory; None if it is no run."""
    # Unlike Path.exists, this returns False for a directory that may not be entered.
    records = RECORDS.items()
    return next((name for name, file in records if os.path.exists(path / file)), None)  # noqa: PTH110


def load_kind(name: str) -> RunKind:
    """Import and return a kind of run by its name."""
    if name == "job":
        from tarmac.jobs import JOB  # noqa: PLC0415

        return JOB
    if name == "search":
        from tarmac.studies import SEARCH  # noqa: PLC0415

        return SEARCH
    from tarmac.runs import TRAINING  # noqa: PLC0415

    return TRAINING


def load_glance(name: str) -> Glancer:
    """Import and return the reader of a kind's glances, which is lighter than the kind itself."""
    if name == "job":
        from tarmac.jobs import glance_job  # noqa: PLC0415

        return glance_job
    if name == "search":
        from tarmac.studies import glance_search  # noqa: PLC0415

        return glance_search
    from tarmac.runs import glance_training  # noqa: PLC0415

    return glance_training
