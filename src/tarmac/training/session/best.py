"""The best checkpoint of a training, which stays beside the newest ones.

It is a second name of a regular checkpoint: a hard link if the file system supports them. Its
header contains its epoch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path

from tarmac.errors import TarmacError
from tarmac.runs import Best, Run
from tarmac.training.session.checkpoint import best_checkpoint, epoch_of, keep_as_best

# Suffix of checkpoints that are not from the middle of an epoch.
_WHOLE_EPOCH = "-step-0000000"


def find_best(run: Run) -> Best | None:
    """Return the metric and epoch of a run's best checkpoint; None if none can be read."""
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
    """The best checkpoint so far, by the metric that judges the run.

    Args:
        run: Run, whose history and best checkpoint set the initial value.
        newest: Checkpoint from which the training resumes. It may be the best without being kept as
            the best, if the training was killed in between.
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
        """Update the best value from a checkpoint's epoch; return whether the epoch is better."""
        value = row.get(self._metric)
        if value is None or math.isnan(value):
            return False
        known = [] if self._value is None else [self._value]
        if value in known or self._judged.best([*known, value]) != value:
            return False
        self._value = value
        return True
