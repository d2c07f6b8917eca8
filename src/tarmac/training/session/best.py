"""The best checkpoint of a training, which stays beside the newest ones.

It is one of those that are written anyway, by another name: a hard link where the file system has
them. Which epoch it is of, its own header says.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.runs import Best
from tarmac.training.session.checkpoint import best_checkpoint, epoch_of, keep_as_best

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tarmac.runs import Run

# How names of checkpoints end that are not of the midst of an epoch.
_WHOLE_EPOCH = "-step-0000000"


def find_best(run: Run) -> Best | None:
    """Return what a run's best checkpoint is of; None where there is none that can be read."""
    path = best_checkpoint(run.checkpoints)
    metric = run.record.judged_by.of("val")
    with contextlib.suppress(TarmacError):
        epoch = None if path is None else epoch_of(path)
        for row in run.history:
            if path is not None and row["epoch"] == epoch and metric in row:
                file = path.relative_to(run.path).as_posix()
                return Best(epoch=epoch, metric=metric, value=row[metric], file=file)
    return None


class BestSoFar:
    """Says which checkpoints are better than all before them, by what the run is judged by.

    Args:
        run: As it stands; what was written before is taken note of.
        newest: The checkpoint that the training goes on from. It may be the best without being
            kept as that, where the training was killed in between.
    """

    def __init__(self, run: Run, newest: Path | None) -> None:
        self._judged = run.record.judged_by
        self._metric = self._judged.of("val")
        best = find_best(run)
        self._value = None if best is None else best.value
        if newest is None or not run.history or not newest.stem.endswith(_WHOLE_EPOCH):
            return
        last = run.history[-1]
        if epoch_of(newest) == last["epoch"] and self.sees(last):
            keep_as_best(newest)

    def sees(self, row: Mapping[str, float]) -> bool:
        """Take note of the line of an epoch whose checkpoint is written; return if it is better."""
        value = row.get(self._metric)
        if value is None or math.isnan(value):
            return False
        known = [] if self._value is None else [self._value]
        if value in known or self._judged.best([*known, value]) != value:
            return False
        self._value = value
        return True
