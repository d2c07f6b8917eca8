"""A process that trains networks for a search: jobs on standard input, epochs on standard output.

Started as ``python -m tarmac.studies.evaluation.worker NUM_THREADS``. Each line in is a job, or the
answer to an epoch; each line out is an epoch or a job's end.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tarmac.errors import TarmacError
from tarmac.studies.evaluation.workers import serve_trainings
from tarmac.training import Silent, resume, train

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.processes import Conversation
    from tarmac.runs import Run
    from tarmac.training import Plan

# Of a job, what a training has an option for.
_OPTIONS = (
    "epochs",
    "monitor",
    "patience",
    "train_size",
    "validation_size",
    "validation_split",
    "validation_seed",
    "seed",
    "devices",
    "output",
)

_LOSER = "stopped by the search, as a loser"


class _Session(Silent):
    """One network's training: tells the search of each epoch, and ends it where the search says so.

    Args:
        search: The process that searches.
        is_candidate: Whether the search answers each epoch; it does not for the winner.
    """

    def __init__(self, search: Conversation, *, is_candidate: bool) -> None:
        self._search = search
        self._is_candidate = is_candidate
        self._num_parameters = 0
        self._row: dict[str, float] = {}

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:  # noqa: ARG002 - Reporter's
        self._num_parameters = num_parameters

    def stop(self, row: Mapping[str, float]) -> str | None:
        """Return why the training ends after an epoch; None where it goes on."""
        self._row = dict(row)
        self._search.send(epoch=int(row["epoch"]), metrics=self._row)
        if not self._is_candidate:
            return None
        return _LOSER if self._search.receive()["stop"] else None

    @property
    def has_trained(self) -> bool:
        """Whether an epoch is done."""
        return bool(self._row)

    def result(self, run: Run) -> dict[str, Any]:
        """Return what a candidate's training came to, once it is done."""
        # Of training alone: the first network of a process would be charged with its imports.
        seconds = sum(row["seconds"] for row in run.history)
        row = self._row or run.history[-1]
        metrics = row | {"num_parameters": self._num_parameters, "seconds": seconds}
        metrics["epochs"] = row["epoch"]
        return {"done": metrics, "stopped": run.record.stopped_early == _LOSER}


def main() -> None:
    """Train what comes in, until the input ends."""
    serve_trainings(_work)


def _work(job: dict[str, Any], search: Conversation) -> None:
    """Train one network and say how it went."""
    is_candidate = "validation_size" in job
    session = _Session(search, is_candidate=is_candidate)
    settings = dict(job["settings"])
    options = {key: settings.pop(key) for key in ("learning_rate", "batch_size") if key in settings}
    options |= {key: job[key] for key in _OPTIONS if key in job}
    try:
        run = _gone_on_with(job, session)
        if run is None:
            for record in Path(job["output"]).glob("[!.]*/run.json"):
                shutil.rmtree(record.parent, ignore_errors=True)
            if is_candidate:
                # Only the winner's own training may see the test set.
                every = job.get("checkpoint_every", job["epochs"] + 1)
                options |= {"score_test": False, "checkpoint_every": every}
            run = train(
                job["workload"], settings=settings, reporter=session, stop=session.stop, **options
            )
        if run.record.status != "completed":
            search.send(interrupted=True)
        elif is_candidate:
            _drop_weights(run)
            search.send(**session.result(run))
        else:
            search.send(done=dict(run.metrics), run=str(run.path))
    except TarmacError as error:
        search.send(failed=error.message)
    except (MemoryError, torch.OutOfMemoryError) as error:
        search.send(failed=f"out of memory: {str(error).partition(chr(10))[0]}")
    except Exception as error:
        # Whatever a user's model raises is its network's end, not the search's.
        search.send(failed=f"{type(error).__name__}: {error}")


def _gone_on_with(job: Mapping[str, Any], session: _Session) -> Run | None:
    """Go on with a training that was cut short; None where it is to be begun."""
    if "checkpoint_every" not in job:
        return None
    for record in Path(job["output"]).glob("[!.]*/run.json"):
        try:
            return resume(record.parent, reporter=session, stop=session.stop)
        except TarmacError:
            # Without a checkpoint that can be read it begins again. What comes later is its own.
            if session.has_trained:
                raise
    return None


def _drop_weights(run: Run) -> None:
    """Leave of a candidate's run what says how the network did."""
    for path in (*run.checkpoints.iterdir(), run.model):
        # What cannot be removed takes room, and is no failure of the network.
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
