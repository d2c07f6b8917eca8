"""A study's trials for other programs."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from tarmac.studies.views.report import columns, table_rows

if TYPE_CHECKING:
    from tarmac.studies.study.study import Study

__all__ = ["export"]


def export(study: Study, form: str) -> str:
    """Write all trials.

    Args:
        study: Whose.
        form: ``csv``, with a column per parameter and objective, or ``json``, a list of objects.
    """
    rows = table_rows(study)
    if form == "json":
        return json.dumps(rows, indent=2) + "\n"
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(study), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
