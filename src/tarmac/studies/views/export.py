"""The export of a study's trials for other programs."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarmac.studies.study.study import Study

# Columns of the table after a trial's values and parameters.
_MEASURED = ("epochs", "seconds", "num_parameters", "same_as", "error")


def export(study: Study, form: str) -> str:
    """Return all trials as text.

    Args:
        study: Study whose trials are exported.
        form: ``csv``, with a column per parameter and objective, or ``json``, a list of objects.
    """
    rows = _rows(study)
    if form == "json":
        return json.dumps(rows, indent=2) + "\n"
    text = io.StringIO()
    writer = csv.DictWriter(text, _columns(study), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _columns(study: Study) -> list[str]:
    """Return the column names of the table."""
    names = ["number", "state", "generation", "origin", *study.request.objective]
    return [*names, *study.space.parameters, *_MEASURED]


def _rows(study: Study) -> list[dict[str, Any]]:
    """Return all trials as flat rows with all columns; None for missing values."""
    rows = []
    for row in study.trials:
        flat = {**row, **row["params"], **row["values"]}
        rows.append({name: flat.get(name) for name in _columns(study)})
    return rows
