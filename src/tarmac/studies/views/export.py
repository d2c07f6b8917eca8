"""A study's trials for other programs."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarmac.studies.study.study import Study

# What of a trial stands in the table after its values and parameters.
_MEASURED = ("epochs", "seconds", "num_parameters", "same_as", "error")


def export(study: Study, form: str) -> str:
    """Write all trials.

    Args:
        study: Study whose trials are written.
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
    """Return the names of a table of all trials."""
    names = ["number", "state", "generation", "origin", *study.request.objective]
    return [*names, *study.space.parameters, *_MEASURED]


def _rows(study: Study) -> list[dict[str, Any]]:
    """Return all trials as flat rows, every one with every column; None where it has no value."""
    rows = []
    for row in study.trials:
        flat = {**row, **row["params"], **row["values"]}
        rows.append({name: flat.get(name) for name in _columns(study)})
    return rows
