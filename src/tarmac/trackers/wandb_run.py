"""A run at Weights & Biases, by its own client."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import wandb

from tarmac.errors import RequestError
from tarmac.trackers.tracker import flat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.trackers.tracker import TrackedRun

# Modes in which nothing is sent, by what the user calls them.
_LOCAL_MODES: Mapping[str, Literal["offline", "disabled"]] = {
    "offline": "offline",
    "dryrun": "offline",
    "disabled": "disabled",
}

# The axis of what comes in any order.
_NUMBER = "number"


class WandbRun:
    """A run; see `Tracker`. Its own files are below the run's directory, in ``wandb/``.

    Args:
        run: Run to open, or to continue where the service knows its id.

    Raises:
        RequestError: Nobody is logged in, and it is not told to stay offline.
    """

    def __init__(self, run: TrackedRun) -> None:
        mode = _LOCAL_MODES.get(os.environ.get("WANDB_MODE", ""))
        if mode is None and not wandb.api.api_key:
            # The client would ask on the terminal, in the middle of a training's start.
            raise RequestError(
                "nobody is logged in to Weights & Biases",
                hint="Log in: wandb login\nOr keep it here, to be sent later: "
                "export WANDB_MODE=offline",
            )
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "tarmac"),
            id=run.id,
            name=run.name,
            resume="allow",
            dir=run.directory,
            # As it is now: the client keeps what it was when it was first asked anything.
            mode=mode,
            config=flat(run.configuration),
            tags=list(run.tags.values()),
            # What is printed is the run's own affair, on standard output for one with --json.
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._is_ordered = run.is_ordered
        if not run.is_ordered:
            # The client leaves out a step that is less than the last one.
            self._run.define_metric("*", step_metric=_NUMBER)
        # Below the run's directory where it stays offline, which has no address.
        url = None if self._run.offline else self._run.url
        self.place: str = url or str(Path(self._run.dir).parent)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Tell of a step."""
        if self._is_ordered:
            self._run.log(dict(metrics), step=step)
        else:
            self._run.log({**metrics, _NUMBER: step})

    def end(self, status: str, summary: Mapping[str, float]) -> None:
        """Tell how it ended."""
        self._run.summary.update({**summary, "status": status})
        self._run.finish(exit_code=0 if status == "completed" else 1)
