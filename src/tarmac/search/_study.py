"""A study: a directory that says what is searched, and the trials in its Optuna storage."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import secrets
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from filelock import FileLock
from optuna.study import StudyDirection
from optuna.trial import TrialState

from tarmac import runs
from tarmac.distribution import SCRIPTS, installed_version
from tarmac.errors import RequestError, TarmacError
from tarmac.search._leases import Leases
from tarmac.search._ledger import GENERATION, Ledger
from tarmac.search._objectives import OBJECTIVES
from tarmac.search._record import StudyRecord, Winner, read_study_record
from tarmac.search._request import Request
from tarmac.search._space import Space
from tarmac.search._storage import has_password, masked, open_storage
from tarmac.storage import write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

    from tarmac.train import Setting

__all__ = ["Study", "find_study", "list_studies"]

_PACKAGES = ("optuna", "torch", "numpy")
_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


class Study:
    """A search and its directory.

    Args:
        path: The directory, which exists.
        record: What its ``study.json`` says.
        storage: The database's URL where the record holds it without its password.
    """

    def __init__(self, path: Path, record: StudyRecord, storage: str | None = None) -> None:
        self.path = path
        self.record = record
        self._url = storage or record.storage
        self.lock = FileLock(path / ".lock", is_singleton=False)
        self.leases = Leases(path / "workers")

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
    ) -> Study:
        """Make a study's directory and its place in the storage.

        Raises:
            RequestError: ``output`` cannot be written.
            TarmacError: The storage cannot be reached; nothing was made.
        """
        created_at = runs.now()
        safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).lstrip(".")
        path = output / f"{safe or 'study'}-{created_at:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        url = request.storage
        if url is not None:
            # Seen to be there before anything is made.
            open_storage(url, path / "journal.log")
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
            storage=None if url is None else masked(url),
            versions=_versions(),
        )
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise RequestError(
                f"studies cannot be made in {output}: {error.strerror}",
                hint="Name another directory with --output.",
            ) from error
        study = cls(path, record, url)
        study._write()
        with study.lock:
            study._create_in_storage()
        return study

    @classmethod
    def open(cls, path: Path, storage: str | None = None) -> Study:
        """Open a study's directory.

        Raises:
            RequestError: It is no study, or one of a newer Tarmac.
            TarmacError: Its ``study.json`` is damaged.
        """
        return cls(path, read_study_record(path / "study.json"), storage)

    def __repr__(self) -> str:
        best = self.record.best
        found = "" if best is None else f": {best.values}, test_accuracy={best.test_accuracy}"
        return f"<Study {self.path} {self.status}{found}>"

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name

    @functools.cached_property
    def request(self) -> Request:
        """What was asked."""
        return Request.model_validate(self.record.request)

    @functools.cached_property
    def space(self) -> Space:
        """What is searched over.

        Raises:
            TarmacError: It is not what the study began with.
        """
        found = Space.from_record(self.record.space)
        if found.fingerprint != self.record.fingerprint:
            raise TarmacError(
                f"{self.path / 'study.json'}: the space is not the one that the study began with",
                hint="Put it back as it was, or begin a new study.",
            )
        return found

    @property
    def status(self) -> str:
        """How it stands; whether a process works on it is asked, not read."""
        if self.leases.living():
            return "running"
        return "interrupted" if self.record.status == "running" else self.record.status

    @property
    def best(self) -> Winner | None:
        """The winner; None before there is one."""
        return self.record.best

    @functools.cached_property
    def storage(self) -> BaseStorage:
        """The Optuna storage.

        Raises:
            RequestError: Its password is not known.
            TarmacError: It cannot be reached, or is damaged.
        """
        if self._url is not None and self.record.storage == self._url and has_password(self._url):
            raise RequestError(
                f"the password of {self.record.storage} is not kept in {self.name}",
                hint="Name the database again: --storage URL",
            )
        return open_storage(self._url, self.path / "journal.log")

    @functools.cached_property
    def optuna(self) -> optuna.Study:
        """The study as Optuna has it, for its own tools.

        Raises:
            TarmacError: It is not in its storage.
        """
        if not self._is_in_storage():
            with self.lock:
                if not self._is_in_storage():
                    if self._url is not None:
                        raise TarmacError(f"study {self.record.id} is not in {masked(self._url)}")
                    # A process that was killed right after it made the directory.
                    self._create_in_storage()
        return optuna.load_study(study_name=self.record.id, storage=self.storage)

    @functools.cached_property
    def ledger(self) -> Ledger:
        """Its trials."""
        study = self.optuna
        return Ledger(self.storage, study._study_id, self.space)

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
        found = {
            "number": trial.number,
            "state": _STATES[trial.state],
            "generation": trial.system_attrs.get(GENERATION),
            "origin": attributes.get("origin"),
            **named,
            "params": dict(trial.params),
        }
        kept = ("epochs", "seconds", "num_parameters", "error", "same_as", "together", "run")
        return found | {key: attributes[key] for key in kept if key in attributes}

    def settings_of(self, trial: FrozenTrial) -> dict[str, Setting]:
        """Return everything that makes a trial's network, its own parameters last."""
        return {**self.record.settings, **trial.params}

    @property
    def maximize(self) -> list[bool]:
        """Whether more is better, by objective."""
        return [OBJECTIVES[name].maximize for name in self.request.objective]

    def update(self, **changes: Any) -> None:
        """Change fields of the record on top of what other processes have written.

        Raises:
            StorageError: It could not be written; the old one is still there.
        """
        with self.lock:
            latest = read_study_record(self.path / "study.json")
            self.record = latest.model_copy(update=changes)
            self._write()

    def reload(self) -> None:
        """Read the record anew."""
        self.record = read_study_record(self.path / "study.json")

    def _write(self) -> None:
        write_json(self.path / "study.json", self.record.model_dump(mode="json"))

    def _is_in_storage(self) -> bool:
        return any(one.study_name == self.record.id for one in self.storage.get_all_studies())

    def _create_in_storage(self) -> None:
        directions = [
            StudyDirection.MAXIMIZE if more else StudyDirection.MINIMIZE for more in self.maximize
        ]
        created = optuna.create_study(
            storage=self.storage, study_name=self.record.id, directions=directions
        )
        with warnings.catch_warnings():
            # Optuna calls it experimental; optuna-dashboard shows nameless objectives without it.
            warnings.simplefilter("ignore")
            created.set_metric_names([*self.request.objective])
        for key in ("workload", "method", "seed"):
            created.set_user_attr(key, getattr(self.request, key))
        created.set_user_attr("settings", dict(self.record.settings))
        created.set_user_attr("directory", str(self.path.resolve()))


def _command() -> tuple[str, ...]:
    """Return the command line, if it is Tarmac's, without passwords."""
    if Path(sys.argv[0]).name not in SCRIPTS:
        return ()
    return tuple(masked(word) for word in sys.argv)


def _versions() -> dict[str, str]:
    versions = {"tarmac": installed_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def list_studies(output: Path | None = None) -> tuple[list[Study], list[tuple[Path, str]]]:
    """Return the studies under a directory, the newest first, and why others cannot be read."""
    found: list[Study] = []
    broken: list[tuple[Path, str]] = []
    for path in sorted((output or runs.default_output()).glob("*/study.json")):
        try:
            found.append(Study.open(path.parent))
        except TarmacError as error:
            broken.append((path.parent, error.message))
    found.sort(key=lambda study: study.record.created_at, reverse=True)
    return found, broken


def find_study(reference: str, output: Path | None = None, storage: str | None = None) -> Study:
    """Find a study.

    Args:
        reference: A path, a name, the beginning of a name, or ``"latest"``.
        output: Where studies lie; `tarmac.runs.default_output` if not given.
        storage: The database's URL where that holds a password.

    Raises:
        RequestError: None fits, or more than one.
    """
    root = output or runs.default_output()
    for path in (Path(reference), root / reference):
        if (path / "study.json").exists():
            return Study.open(path, storage)
    found, _ = list_studies(root)
    fitting = [study for study in found if study.name.startswith(reference)]
    if reference == "latest" and found:
        fitting = found[:1]
    if len(fitting) == 1:
        return Study.open(fitting[0].path, storage)
    if fitting:
        names = "\n".join(study.name for study in fitting)
        raise RequestError(f"study {reference!r} is not unique in {root}", hint=names)
    names = "\n".join(study.name for study in found[:10]) or "(none)"
    raise RequestError(f"there is no study {reference!r} in {root}", hint=f"Newest there:\n{names}")
