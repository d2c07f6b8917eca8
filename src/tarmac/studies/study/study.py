"""A study: a directory with its record, and its trials in an Optuna storage."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import optuna
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tarmac.errors import RequestError, TarmacError
from tarmac.files import damaged_record, validated
from tarmac.studies.ledger import GENERATION, Ledger
from tarmac.studies.methods.interface import Method
from tarmac.studies.methods.registry import find_method
from tarmac.studies.objectives import Objective, recorded_objectives
from tarmac.studies.request import Request
from tarmac.studies.space import Space, fingerprint_of
from tarmac.studies.study.leases import Leases, status_of
from tarmac.studies.study.record import StudyRecord, Winner, read_study_record
from tarmac.studies.study.storage import has_password, masked, open_storage

if TYPE_CHECKING:
    from tarmac.training import Setting

_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


class Study:
    """A search and its directory, read-only; a search itself uses `StudyWriter`.

    Args:
        path: Directory of the study, which must exist.
        record: Content of its ``study.json``.
        storage: URL of the database, if the record holds it without its password.
    """

    def __init__(self, path: Path, record: StudyRecord, storage: str | None = None) -> None:
        self.path = path
        self._record = record
        self._request: Request | None = None
        self._url = storage or record.storage
        self._leases = Leases(path / "workers", record.locks)

    @classmethod
    def open(cls, path: Path, storage: str | None = None) -> Self:
        """Open a study's directory.

        Raises:
            RequestError: The directory has no study, or a newer Tarmac wrote it.
            TarmacError: Its ``study.json`` is damaged.
        """
        study = cls(path, read_study_record(path / "study.json"), storage)
        # The request may be damaged in an otherwise valid record, so read it now.
        request, best = study.request, study.best
        lacking = [
            name for name in request.objective if best is not None and name not in best.values
        ]
        if lacking:
            raise damaged_record(path / "study.json", f"best.values: has no {lacking[0]}")
        return study

    def __repr__(self) -> str:
        best = self.record.best
        judged = self.record.judged_by
        test = None if best is None else best.tested(judged)
        winner = "" if best is None else f": {best.values}, {judged.of('test')}={test}"
        return f"<Study {self.path} {self.status}{winner}>"

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name

    @property
    def record(self) -> StudyRecord:
        """The content of its ``study.json``."""
        return self._record

    @property
    def request(self) -> Request:
        """The request that the study carries out."""
        if self._request is None:
            fields = self._record.request
            self._request = validated(self.path / "study.json", Request, fields, "request")
        return self._request

    @functools.cached_property
    def space(self) -> Space:
        """The search space.

        Raises:
            TarmacError: The space is not the one that the study began with.
        """
        if fingerprint_of(self.record.space) != self.record.fingerprint:
            raise TarmacError(
                f"{self.path / 'study.json'}: the space has changed since the study started",
                hint="Restore it, or start a new study.",
            )
        return Space.from_record(self.record.space)

    @property
    def status(self) -> str:
        """The status; its leases show whether a process works on it now."""
        return status_of(self.record.status, is_worked_on=bool(self._leases.seem_living()))

    @property
    def best(self) -> Winner | None:
        """The winner; None before there is one."""
        return self.record.best

    @functools.cached_property
    def optuna(self) -> optuna.Study:
        """The Optuna study, for Optuna's own tools.

        Raises:
            RequestError: The password of its storage is unknown.
            TarmacError: Its storage cannot be reached, is damaged, or does not hold the study.
        """
        return optuna.load_study(study_name=self.record.id, storage=self._storage)

    @functools.cached_property
    def ledger(self) -> Ledger:
        """The ledger of its trials; `Ledger.refresh` reads later changes."""
        ledger = Ledger(self._storage, self.optuna._study_id, self.space)
        ledger.refresh()
        return ledger

    @property
    def trials(self) -> list[dict[str, Any]]:
        """Every trial as plain values, by number."""
        self.ledger.refresh()
        return [self.row(trial) for trial in self.ledger.trials]

    def row(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return a trial as plain values."""
        attributes = trial.user_attrs
        values = trial.values or []
        named = dict(zip(self.request.objective, values, strict=False))
        row = {
            "number": trial.number,
            "state": _STATES[trial.state],
            "generation": trial.system_attrs.get(GENERATION),
            "origin": attributes.get("origin"),
            "values": named,
            **named,
            # Replaces an objective of this name, which is still in `values`.
            "params": dict(trial.params),
        }
        stored = ("epochs", "seconds", "num_parameters", "error", "same_as", "together", "run")
        return row | {key: attributes[key] for key in stored if key in attributes}

    def settings_of(self, trial: FrozenTrial) -> dict[str, Setting]:
        """Return all settings of a trial's network; its parameters override shared settings."""
        return {**self.record.settings, **trial.params}

    @functools.cached_property
    def method(self) -> Method:
        """The method that proposes its networks.

        Raises:
            RequestError: The package that provides its method is not installed.
        """
        return find_method(self.request.method)

    @property
    def has_generations(self) -> bool:
        """Whether its method breeds generations; raises an error as `method` does."""
        return self.method.breeds_generations

    @property
    def maximize(self) -> list[bool]:
        """Whether more is better, by objective."""
        return [objective.maximize for objective in self.objectives]

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives that judge its networks, the most important first."""
        return recorded_objectives(self.request.objective, self.record.directions)

    def reload(self) -> None:
        """Read the record again."""
        self._keep(read_study_record(self.path / "study.json"))

    def _keep(self, record: StudyRecord) -> None:
        self._record, self._request = record, None

    @functools.cached_property
    def _storage(self) -> BaseStorage:
        """The Optuna storage that holds the study."""
        if self._url is not None and self.record.storage == self._url and has_password(self._url):
            raise RequestError(
                f"the password of {self.record.storage} is not kept in {self.name}",
                hint="Name the database again: --storage URL",
            )
        storage = open_storage(self._url, self.path / "journal.log", self.record.locks)
        return storage if self._is_in(storage) else self._begin(storage)

    def _begin(self, storage: BaseStorage) -> BaseStorage:  # noqa: ARG002 - for StudyWriter
        """Return a storage for a study that its own storage does not hold.

        A process that was killed right after creating the directory leaves such a study, which
        has no trials yet.
        """
        if self._url is not None:
            raise TarmacError(f"study {self.record.id} is not in {masked(self._url)}")
        empty = InMemoryStorage()
        self._create_in(empty)
        return empty

    def _is_in(self, storage: BaseStorage) -> bool:
        return any(study.study_name == self.record.id for study in storage.get_all_studies())

    def _create_in(self, storage: BaseStorage) -> None:
        directions = [
            StudyDirection.MAXIMIZE if more else StudyDirection.MINIMIZE for more in self.maximize
        ]
        created = optuna.create_study(
            storage=storage, study_name=self.record.id, directions=directions
        )
        with warnings.catch_warnings():
            # Optuna calls this experimental; without it optuna-dashboard shows unnamed objectives.
            warnings.simplefilter("ignore")
            created.set_metric_names([*self.request.objective])
        for key in ("workload", "method", "seed"):
            created.set_user_attr(key, getattr(self.request, key))
        created.set_user_attr("settings", dict(self.record.settings))
        created.set_user_attr("directory", str(self.path.resolve()))
