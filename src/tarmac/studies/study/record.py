"""``study.json`` as a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.data import ValidationSplit  # noqa: TC001 - Pydantic reads it
from tarmac.files import Moment, read_versioned
from tarmac.runs import Direction, JudgedBy
from tarmac.studies.study.locks import Locks  # noqa: TC001 - Pydantic reads it
from tarmac.wording import counted

if TYPE_CHECKING:
    from pathlib import Path

# How held-out samples were chosen, in words.
_HELD_OUT = {
    "random": "drawn by the seed",
    "last": "the last ones",
    "own": "the dataset's own",
}

# 2 added `locks`, 3 `judged_by`, `directions` and a winner's `test_metrics`, 4 `validation_split`,
# 5 None among settings, and `monitor` in requests.
SCHEMA_VERSION = 5


class Winner(BaseModel):
    """The network that a study found.

    Attributes:
        number: Number of the network's trial.
        settings: All that makes it, by the names that ``tarmac train --set`` takes.
        values: Its objectives, by name.
        epochs: How long its trial trained.
        confirmed: Its first objective from other seeds; empty where none was asked for.
        test_accuracy: Test accuracy of the network trained anew on all training data; None before
            that is done, and where accuracy is not scored.
        test_loss: Test loss of the same network; None before.
        test_metrics: All that it was scored with on the test set, by name; empty before.
        run: That training's run directory, from the study's.
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
        """Return the test score of the network trained anew; None before that is done.

        Args:
            judged: What the study's workload is judged by.
        """
        known = {"test_accuracy": self.test_accuracy, "test_loss": self.test_loss}
        name = judged.of("test")
        return self.test_metrics.get(name, known.get(name))


class StudyRecord(BaseModel):
    """Everything that ``study.json`` says.

    Attributes:
        schema_version: Version of this file's layout.
        id: The study's name in its storage: that of its directory when it was made.
        name: Name of the workload or study's file that was searched.
        status: How it stands. A killed one still says ``running``; see `Study.status`.
        why_ended: Reason why the search is over, in words.
        created_at: Time of the study's creation, in UTC.
        ended_at: Time of its last end, in UTC.
        elapsed_s: Wall-clock seconds of work on it.
        command: The command line; empty where it was started from Python.
        request: What was asked, with every value.
        settings: Those of all its networks.
        space: What is searched over.
        fingerprint: Fingerprint of the space that the study began with.
        train_size: Samples that each network trains on.
        validation_size: Samples that judge it.
        validation_split: How samples are held out, as `tarmac.data.hold_out` says; ``last`` before
            schema 4.
        judged_by: What its workload is judged by; accuracy before schema 3.
        directions: Whether the most or the least of each objective is the best; empty before
            schema 3.
        storage: Where the trials are; without a password, None for the journal beside this file.
        locks: How its processes keep out of each other's way: by the kernel's locks, or by leases
            where they may be on several hosts.
        versions: Versions of Tarmac, Optuna, PyTorch and NumPy, by package.
        best: The winner; None before there is one.
        confirmed: What the best trials reached from other seeds, by number.
        front: Numbers of the trials that none beats, where there are several objectives.
        error: Reason for the failure; None where nothing failed.
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
        """How many samples judge each network, and which, in words."""
        return held_out_in_words(self.validation_size, self.validation_split)


def held_out_in_words(validation_size: int, validation_split: ValidationSplit) -> str:
    """Say how many samples judge each network, and which."""
    return f"{counted(validation_size, 'held-out sample')} ({_HELD_OUT[validation_split]})"


def status_of(record: StudyRecord, *, is_worked_on: bool) -> str:
    """Return how a study stands; a killed search leaves a record that still says ``running``."""
    if is_worked_on:
        return "running"
    return "interrupted" if record.status == "running" else record.status


def read_study_record(path: Path) -> StudyRecord:
    """Read a ``study.json``.

    Raises:
        RequestError: There is none, or it was written by a newer Tarmac.
        TarmacError: It is damaged.
    """
    return read_versioned(path, StudyRecord, SCHEMA_VERSION, "study")
