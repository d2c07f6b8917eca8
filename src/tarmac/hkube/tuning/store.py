"""The trials of a tuner node, in an SQLite database that Optuna and its dashboard read.

Call everything in one thread.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from tarmac.errors import TarmacError
from tarmac.hkube.tuning.samplers import make_sampler, suggest, values_of

if TYPE_CHECKING:
    from tarmac.formats import TunerSpec

_STUDY = "tuning"
# User attribute of a trial without a value: the reason.
_REASON = "reason"


class Trials:
    """The trials of a tuner node.

    Args:
        path: File of the database. Created if it does not exist.
        spec: Sampler, parameters and number of trials of the node.

    Raises:
        TarmacError: The file cannot be written, or is no database.
    """

    def __init__(self, path: Path, spec: TunerSpec) -> None:
        self._path = path
        self._spec = spec
        self._num_trials = spec.total
        sampler = make_sampler(spec)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with self._errors():
            # Connect by a function: in a URL, `?` in a path would start the query.
            self._storage = RDBStorage(
                "sqlite://", engine_kwargs={"creator": lambda: sqlite3.connect(path)}
            )
            self._study = optuna.create_study(
                storage=self._storage,
                sampler=sampler,
                study_name=_STUDY,
                direction="minimize",
                load_if_exists=True,
            )
        self._trial: Trial | None = None

    def ask(self) -> tuple[int, dict[str, Any]] | None:
        """Return the next trial's number, from 0, and parameters; None if no trial is left."""
        with self._errors():
            trials = self._study.get_trials(deepcopy=False)
            under_way = [trial for trial in trials if trial.state == TrialState.RUNNING]
            if under_way:
                self._study.sampler.before_trial(self._study, under_way[0])
                self._trial = Trial(self._study, under_way[0]._trial_id)
            elif len(trials) < self._num_trials:
                self._trial = self._study.ask()
            else:
                return None
            return self._trial.number, suggest(self._trial, self._spec)

    def tell(self, value: float | None, reason: str) -> float | None:
        """Store the value of the trial of the last `ask`, or the reason why it has none.

        Returns:
            The least value so far, or None.
        """
        assert self._trial is not None
        with self._errors():
            if value is None:
                self._trial.set_user_attr(_REASON, reason)
                self._study.tell(self._trial, state=TrialState.FAIL)
            else:
                self._study.tell(self._trial, value)
            best = self._least()
        return None if best is None else best.value

    def best(self) -> dict[str, Any]:
        """Return the parameters of the first trial with the least value.

        Raises:
            TarmacError: No trial has a value.
        """
        with self._errors():
            best = self._least()
            if best is not None:
                return values_of(best.params, self._spec)
            last = self._study.get_trials(deepcopy=False)[-1]
        raise TarmacError(
            f"none of {self._num_trials} trials of {self._spec.objective_pipeline} gave a number; "
            f"the result of the last: {last.user_attrs.get(_REASON, '')}",
            hint="The first node of the objective pipeline's results must return a number, "
            "or a list that begins with one.",
        )

    def close(self) -> None:
        """Close the database."""
        self._storage.engine.dispose()

    def _least(self) -> FrozenTrial | None:
        completed = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return min(completed, key=lambda trial: trial.values, default=None)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, StorageInternalError, sqlite3.Error) as error:
            cause = error if isinstance(error, SQLAlchemyError) else error.__cause__ or error
            cause = getattr(cause, "orig", None) or cause
            raise TarmacError(
                f"{self._path}: the trials cannot be kept: {cause}",
                hint="Is the disk full, or is it not an Optuna file? It was not changed; without "
                "it, tuning starts over.",
            ) from error
