"""The model of ``study.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.data import ValidationSplit
from tarmac.files import Moment, read_versioned
from tarmac.runs import Direction, JudgedBy
from tarmac.studies.study.locks import Locks
from tarmac.wording import counted

# Choice of the held-out samples, in words.
_HELD_OUT = {
    "random": "drawn by the seed",
    "last": "the last ones",
    "own": "the dataset's own",
}

# 2 added `locks`, 3 `judged_by`, `directions` and a winner's `test_metrics`, 4 `validation_split`,
# 5 None among settings, and `monitor` in requests.
SCHEMA_VERSION = 5


class Winner(BaseModel):
    """The best network of a study.

    Attributes:
        number: Number of the network's trial.
        settings: All settings of the network, by the names of ``tarmac train --set``.
        values: Values of its objectives, by name.
        epochs: Number of epochs that its trial trained.
        confirmed: Values of its first objective from other seeds; empty without confirmation.
        test_accuracy: Test accuracy after retraining on all training data; None before that, and
            if accuracy is not scored.
        test_loss: Test loss after retraining; None before.
        test_metrics: All test metrics after retraining, by name; empty before.
        run: Run directory of the retraining, relative to the study's directory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    settings: dict[str, bool | int | float | str | None]
    values: dict[str, float]
    epochs: int
    confirmed: tuple[float, ...] = ()
    test_accuracy: float | None = None
    test_loss: float | None = None
    test_metrics: dict[str, float] = {}
    run: str | None = None

    def tested(self, judged: JudgedBy) -> float | None:
        """Return the test score after retraining; None before.

        Args:
            judged: Metric that judges the study's workload.
        """
        known = {"test_accuracy": self.test_accuracy, "test_loss": self.test_loss}
        name = judged.of("test")
        return self.test_metrics.get(name, known.get(name))


class StudyRecord(BaseModel):
    """The content of ``study.json``.

    Attributes:
        schema_version: Version of this file's layout.
        id: Name of the study in its storage: the original name of its directory.
        name: Name of the workload or study file that was searched.
        status: Recorded status. A killed search still says ``running``; see `Study.status`.
        why_ended: Reason why the search is over, in words.
        created_at: Time of the study's creation, in UTC.
        ended_at: Time at which work on the study last ended, in UTC.
        elapsed_s: Wall-clock seconds of work on the study.
        command: The command line; empty if the study was started from Python.
        request: Request with every value filled in.
        settings: Settings that all networks share.
        space: Search space as JSON values.
        fingerprint: Fingerprint of the space that the study began with.
        train_size: Samples that each network trains on.
        validation_size: Held-out samples on which each network is scored.
        validation_split: How samples are held out, as in `tarmac.data.hold_out`; ``last`` before
            schema 4.
        judged_by: Metric that judges the workload; accuracy before schema 3.
        directions: Better direction of each objective, ``max`` or ``min``; empty before schema 3.
        storage: URL of the trials' database without its password; None for the journal beside
            this file.
        locks: Kind of lock between its processes: ``kernel`` on one host, ``leases`` on several.
        versions: Versions of Tarmac, Optuna, PyTorch and NumPy, by package.
        best: The winner; None before there is one.
        confirmed: Values of the best trials from other seeds, by trial number.
        front: Numbers of the Pareto-optimal trials; empty for a single objective.
        error: Reason for the failure; None without a failure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    id: str
    name: str
    status: Literal["running", "completed", "interrupted", "failed"]
    why_ended: str | None = None
    created_at: Moment
    ended_at: Moment | None = None
    elapsed_s: float = 0.0
    command: tuple[str, ...] = ()
    request: dict[str, Any]
    settings: dict[str, bool | int | float | str | None]
    space: dict[str, Any]
    fingerprint: str
    train_size: int
    validation_size: int
    validation_split: ValidationSplit = "last"
    judged_by: JudgedBy = JudgedBy()
    directions: tuple[Direction, ...] = ()
    storage: str | None = None
    locks: Locks = "kernel"
    versions: dict[str, str] = {}
    best: Winner | None = None
    confirmed: dict[int, tuple[float, ...]] = {}
    front: tuple[int, ...] = ()
    error: str | None = None

    @property
    def held_out(self) -> str:
        """The number and choice of held-out samples, in words."""
        return held_out_in_words(self.validation_size, self.validation_split)


def held_out_in_words(validation_size: int, validation_split: ValidationSplit) -> str:
    """Return the number and choice of held-out samples, in words."""
    return f"{counted(validation_size, 'held-out sample')} ({_HELD_OUT[validation_split]})"


def read_study_record(path: Path) -> StudyRecord:
    """Read a ``study.json``.

    Raises:
        RequestError: There is no record, or a newer Tarmac wrote it.
        TarmacError: The record is damaged.
    """
    return read_versioned(path, StudyRecord, SCHEMA_VERSION, "study")
