"""The worker process that trains networks for a search, through standard input and output.

Started as ``python -m tarmac.studies.evaluation.worker NUM_THREADS``. Each input line is a job, or
the answer to an epoch. Each output line is an epoch, or the end of a job.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tarmac.errors import TarmacError
from tarmac.processes import Conversation
from tarmac.runs import Run
from tarmac.studies.evaluation.workers import serve_trainings
from tarmac.training import Plan, Silent, resume, train

# Keys of a job that are options of `train`.
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

_LOSER = "stopped early by the search"


class _Session(Silent):
    """The reporter of one training: sends each epoch to the search, which may stop the training.

    Args:
        search: Connection to the process that searches.
        is_candidate: Whether the search answers each epoch; it does not for the winner.
    """

    def __init__(self, search: Conversation, *, is_candidate: bool) -> None:
        self._search = search
        self._is_candidate = is_candidate
        self._num_parameters = 0
        self._row: dict[str, float] = {}

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:  # noqa: ARG002 - Reporter's signature
        self._num_parameters = num_parameters

    def stop(self, row: Mapping[str, float]) -> str | None:
        """Send an epoch; return why the training stops, or None if it goes on."""
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
        """Return the result of a candidate's finished training."""
        # Training time alone: otherwise the first network of a process would include the imports.
        seconds = sum(row["seconds"] for row in run.history)
        row = self._row or run.history[-1]
        metrics = row | {"num_parameters": self._num_parameters, "seconds": seconds}
        metrics["epochs"] = row["epoch"]
        return {"done": metrics, "stopped": run.record.stopped_early == _LOSER}


def main() -> None:
    """Train the networks of all jobs, until the input ends."""
    serve_trainings(_work)


def _work(job: dict[str, Any], search: Conversation) -> None:
    """Train one network and send its result."""
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
                # Only the winner's retraining may see the test set.
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
        # An exception of a user's model fails its network, not the search.
        search.send(failed=f"{type(error).__name__}: {error}")


def _gone_on_with(job: Mapping[str, Any], session: _Session) -> Run | None:
    """Resume an interrupted training; return None if there is none to resume."""
    if "checkpoint_every" not in job:
        return None
    for record in Path(job["output"]).glob("[!.]*/run.json"):
        try:
            return resume(record.parent, reporter=session, stop=session.stop)
        except TarmacError:
            # Without a readable checkpoint the training restarts. Later errors are its own.
            if session.has_trained:
                raise
    return None


def _drop_weights(run: Run) -> None:
    """Delete a candidate's checkpoints and model; keep its results."""
    for path in (*run.checkpoints.iterdir(), run.model):
        # A file that cannot be removed only takes space; the network has not failed.
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
