"""The writable study: all changes of a record and its trials are here."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from tarmac import runs
from tarmac.data import ValidationSplit
from tarmac.distribution import SCRIPTS, installed_version
from tarmac.errors import RequestError
from tarmac.files import (
    is_network,
    new_directory,
    output_errors,
    storage_errors,
    write_json,
)
from tarmac.masking import remember_environment, without_known
from tarmac.runs import JudgedBy
from tarmac.studies.objectives import find_objectives
from tarmac.studies.request import Request
from tarmac.studies.space import Space
from tarmac.studies.study.leases import Leases
from tarmac.studies.study.locks import Locks, turns
from tarmac.studies.study.record import StudyRecord, read_study_record
from tarmac.studies.study.storage import masked, open_storage
from tarmac.studies.study.study import Study

if TYPE_CHECKING:
    from tarmac.training import Setting

_BY_ACCURACY = JudgedBy()

_PACKAGES = ("optuna", "torch", "numpy")


class StudyWriter(Study):
    """A study that may be written.

    Only the loop, its queue and its proposals write trials; the record is written where a study is
    opened, followed and concluded. All other code gets a read-only `Study`. Several processes may
    write, one at a time; changes of several steps hold ``lock``.

    Args:
        path: Directory of the study, which must exist.
        record: Content of its ``study.json``.
        storage: URL of the database, if the record holds it without its password.

    Attributes:
        lock: Reentrant lock that one process at a time holds.
    """

    def __init__(self, path: Path, record: StudyRecord, storage: str | None = None) -> None:
        super().__init__(path, record, storage)
        self.lock = turns(path / ".lock", record.locks)

    @classmethod
    def create(
        cls,
        output: Path,
        name: str,
        request: Request,
        space: Space,
        settings: Mapping[str, Setting],
        *,
        train_size: int,
        validation_size: int,
        validation_split: ValidationSplit = "random",
        judged_by: JudgedBy = _BY_ACCURACY,
        is_shared: bool = False,
    ) -> StudyWriter:
        """Create a study's directory and its entry in the storage.

        Args:
            output: Directory in which the study's directory is created.
            name: Name of the workload or study file; the directory's name begins with it.
            request: Request that the study carries out.
            space: Search space of the study.
            settings: Settings that all networks share.
            train_size: Samples that each network trains on.
            validation_size: Held-out samples on which each network is scored.
            validation_split: How samples are held out: ``random``, ``last`` or ``own``.
            judged_by: Metric that judges the workload, with its direction.
            is_shared: Whether several hosts may work on the study; on a network file system they
                always may.

        Raises:
            RequestError: ``output`` cannot be written, or an objective is invalid.
            TarmacError: The storage cannot be reached; nothing was created.
        """
        objectives = find_objectives(request.objective, judged_by)
        request = request.model_copy(
            update={"objective": tuple(objective.name for objective in objectives)}
        )
        locks: Locks = "leases" if is_shared or is_network(output) else "kernel"
        created_at = runs.now()
        safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).lstrip(".")
        path = output / f"{safe or 'study'}-{created_at:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        url = request.storage
        if url is not None:
            # Check that the database can be reached before anything is created.
            open_storage(url, path / "journal.log", locks)
            request = request.model_copy(update={"storage": masked(url)})
        record = StudyRecord(
            id=path.name,
            name=name,
            status="running",
            created_at=created_at,
            command=_command(),
            request=request.model_dump(mode="json"),
            settings=dict(settings),
            space=space.to_record(),
            fingerprint=space.fingerprint,
            train_size=train_size,
            validation_size=validation_size,
            validation_split=validation_split,
            judged_by=judged_by,
            directions=tuple(objective.direction for objective in objectives),
            storage=None if url is None else masked(url),
            locks=locks,
            versions=_versions(),
        )
        with output_errors("studies", output), new_directory(path) as made:
            cls(made, record, url)._write()
        study = cls(path, record, url)
        study._create()
        return study

    @property
    def leases(self) -> Leases:
        """The leases of the processes that work on the study."""
        return self._leases

    @property
    def storage(self) -> BaseStorage:
        """The Optuna storage.

        Raises:
            RequestError: The password of the storage is unknown.
            TarmacError: The storage cannot be reached, is damaged, or does not hold the study.
        """
        return self._storage

    def shared(self) -> StudyWriter:
        """Convert the study so that several hosts may work on it, and return it.

        Raises:
            RequestError: A process works on the study with kernel locks, or hosts cannot share its
                database.
        """
        self.check_shareable()
        if self.record.locks == "leases":
            return self
        with self.lock:
            working = self._leases.living()
            if working:
                raise RequestError(
                    f"study {self.name} is in use by {', '.join(working)}",
                    hint="Stop its search first, with Ctrl-C or SIGTERM; then resume it here.",
                )
            self.update(locks="leases")
            # Kernel locks leave empty files, which are no valid leases.
            for path in self.path.glob("*.lock"):
                with storage_errors(path):
                    path.unlink()
        return type(self).open(self.path, self._url)

    def check_shareable(self) -> None:
        """Check that several hosts can share the study's storage.

        Raises:
            RequestError: The storage is SQLite, which a single host may write.
        """
        if (self.record.storage or "").startswith("sqlite"):
            raise RequestError(
                f"study {self.name} is in {self.record.storage}, which only one host may write",
                hint="Start a new study without --storage: its journal can be shared by hosts. "
                "Or in a "
                "database: --storage postgresql://user@host/name",
            )

    def update(self, **changes: Any) -> None:
        """Change fields of the record, and keep what other processes have written.

        Raises:
            StorageError: The record could not be written; the old record is still there.
        """
        with self.lock:
            latest = read_study_record(self.path / "study.json")
            self._keep(latest.model_copy(update=changes))
            self._write()

    def end(
        self, status: Literal["interrupted", "failed"], *, error: str | None = None, **changes: Any
    ) -> None:
        """Record that this process's work on the study ended before the study did.

        A study that another process has completed since stays completed. Secrets of this process's
        environment are redacted from the error.

        Raises:
            StorageError: The record could not be written; the old record is still there.
        """
        with self.lock:
            self.reload()
            if self.record.status != "completed":
                words = None if error is None else _without_secrets(error)
                self.update(status=status, error=words, ended_at=runs.now(), **changes)

    def add_trial(self, template: FrozenTrial) -> None:
        """Add a trial with all its fields, as one line of the journal."""
        self._storage.create_new_trial(self.optuna._study_id, template_trial=template)
        self.ledger.refresh()

    def set_state(self, number: int, state: TrialState) -> None:
        """Set an unfinished trial to waiting or running."""
        self._storage.set_trial_state_values(self.ledger.trial_id(number), state)

    def mark(self, number: int, key: str, value: object) -> None:
        """Store an attribute of a trial, which optuna-dashboard shows; redact errors."""
        if key == "error":
            value = _without_secrets(str(value))
        self._storage.set_trial_user_attr(self.ledger.trial_id(number), key, value)

    def add_value(self, number: int, epoch: int, value: float) -> None:
        """Store a trial's value after an epoch."""
        self._storage.set_trial_intermediate_value(self.ledger.trial_id(number), epoch, value)

    def tell(
        self,
        number: int,
        state: TrialState,
        values: Sequence[float] | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> None:
        """Finish a trial, with attributes as for `mark`; a finished trial keeps its result."""
        for key, value in (attributes or {}).items():
            self.mark(number, key, value)
        self.optuna.tell(number, values, state, skip_if_finished=True)
        self.ledger.refresh()

    def _begin(self, storage: BaseStorage) -> BaseStorage:
        if self._url is not None:
            return super()._begin(storage)
        with self.lock:
            if not self._is_in(storage):
                self._create_in(storage)
        return storage

    def _create(self) -> None:
        """Create the study's entry in its storage."""
        with self.lock:
            storage = open_storage(self._url, self.path / "journal.log", self.record.locks)
            self._create_in(storage)

    def _write(self) -> None:
        write_json(self.path / "study.json", self.record.model_dump(mode="json"))


def _command() -> tuple[str, ...]:
    """Return the command line, if it is Tarmac's, with passwords redacted."""
    if Path(sys.argv[0]).name not in SCRIPTS:
        return ()
    return tuple(masked(word) for word in sys.argv)


def _versions() -> dict[str, str]:
    versions = {"tarmac": installed_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def _without_secrets(text: str) -> str:
    remember_environment(os.environ)
    return without_known(text)
