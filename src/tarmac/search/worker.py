"""A process that trains networks for a search: jobs on standard input, epochs on standard output.

Started as ``python -m tarmac.search.worker NUM_THREADS``. Each line in is a job, or the answer to
an epoch; each line out is an epoch or a job's end.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Any

import torch

from tarmac.errors import TarmacError
from tarmac.search._serving import serve
from tarmac.train import Silent, train

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.runs import Run
    from tarmac.search._serving import Conversation
    from tarmac.train import Plan

__all__ = ["main"]


class _Ended(Exception):  # noqa: N818 - how every network of a search ends
    """The network has trained as long as it is to; its test set stays unseen."""

    def __init__(self, why: str, *, stopped: bool = False) -> None:
        super().__init__(why)
        self.stopped = stopped


class _Reporter(Silent):
    """Reports each epoch, and ends the training where that is due.

    The last epoch ends it too: what `tarmac.train` does after it is to score the test set, which
    only the winner's own training may.

    Args:
        search: Is told.
        job: What it asked for.
    """

    def __init__(self, search: Conversation, job: dict[str, Any]) -> None:
        self._search = search
        self._epochs: int = job["epochs"]
        self._patience: int | None = job.get("patience")
        self._is_whole = "validation_size" not in job
        self._least = float("inf")
        self._least_at = 0
        self.run: Run | None = None
        self.num_parameters = 0
        self.row: dict[str, float] = {}
        self.seconds = 0.0

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:  # noqa: ARG002 - Reporter's
        self.run = run
        self.num_parameters = num_parameters

    def epoch_done(self, row: Mapping[str, float]) -> None:
        self.row = dict(row)
        # Of training alone: the first network of a process would be charged with its imports.
        self.seconds += row["seconds"]
        epoch = int(row["epoch"])
        self._search.say(epoch=epoch, metrics=self.row)
        if self._is_whole:
            return
        is_loser = self._search.hear()["stop"]
        if row["val_loss"] < self._least:
            self._least, self._least_at = row["val_loss"], epoch
        if epoch == self._epochs:
            raise _Ended("trained for a search, which does not look at the test set")
        if self._patience is not None and epoch - self._least_at >= self._patience:
            raise _Ended(f"no lower validation loss for {self._patience} epochs")
        if is_loser:
            raise _Ended(f"stopped by the search after epoch {epoch}", stopped=True)


def main() -> None:
    """Train what comes in, until the input ends."""
    serve(_work)


def _work(job: dict[str, Any], search: Conversation) -> None:
    """Train one network and say how it went."""
    reporter = _Reporter(search, job)
    settings = dict(job["settings"])
    options = {key: settings.pop(key) for key in ("learning_rate", "batch_size") if key in settings}
    given = ("epochs", "train_size", "validation_size", "seed", "devices", "output")
    options |= {key: job[key] for key in given if key in job}
    try:
        if "validation_size" in job:
            # A search repeats a training that was cut short: nothing of it is of use.
            shutil.rmtree(job["output"], ignore_errors=True)
            options["checkpoint_every"] = job["epochs"] + 1
        run = train(job["workload"], settings=settings, reporter=reporter, **options)
        if run.record.status == "completed":
            search.say(done=dict(run.metrics), run=str(run.path))
        else:
            search.say(interrupted=True)
    except _Ended as ended:
        metrics = reporter.row | {
            "epochs": reporter.row["epoch"],
            "num_parameters": reporter.num_parameters,
            "seconds": reporter.seconds,
        }
        _tidy(reporter.run, str(ended))
        search.say(done=metrics, stopped=ended.stopped)
    except TarmacError as error:
        search.say(failed=error.message)
    except (MemoryError, torch.OutOfMemoryError) as error:
        search.say(failed=f"out of memory: {str(error).partition(chr(10))[0]}")
    except Exception as error:
        # Whatever a user's model raises is its network's end, not the search's.
        search.say(failed=f"{type(error).__name__}: {error}")


def _tidy(run: Run | None, why: str) -> None:
    """Leave of a run what says how the network did."""
    if run is None:
        return
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    with contextlib.suppress(TarmacError, OSError):
        run.checkpoints.mkdir(exist_ok=True)
        run.update(status="interrupted", error=why)


if __name__ == "__main__":
    main()
