"""``run.json`` as a model."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from tarmac.errors import TarmacError
from tarmac.files import Moment, Shape, damaged_record, read_versioned
from tarmac.runs.judging import JudgedBy

# 2 added `parallel` and `launch`, 3 `stopped_early` and `uploaded_to`, 4 `energy_joules`,
# `throttled_s`, `mfu` and `tracked`, 5 `judged_by` and `best`, 6 `validation_split` and
# `validation_seed` to a training's configuration, and `num_validation` to its dataset, 7 `monitor`
# and `threads` to the former.
SCHEMA_VERSION = 7

# Settings added after version 1, with the values that older trainings had; null means "not
# recorded". A record of any version before 7 may lack some of them: a resume wrote an older record
# as the newest version without adding them.
_BEFORE_7: dict[str, Any] = {
    "accumulate": 1,
    "activation_checkpointing": False,
    "devices": None,
    "feed": "auto",
    "fused": "off",
    "hang_timeout_s": 300.0,
    "log_to": [],
    "max_restarts": 3,
    "monitor": None,
    "patience": None,
    "sampling": True,
    "score_test": True,
    "steps": None,
    "strategy": "auto",
    "sync_batchnorm": False,
    "threads": None,
    "validation_seed": None,
    "validation_split": None,
}

# Types that readers need; versions before the newest lack some of these keys.
_TEXTS = ("workload", "strategy", "feed", "fused", "precision", "compile")
_WHOLE = (
    "epochs",
    "batch_size",
    "seed",
    "checkpoint_every",
    "accumulate",
    "max_restarts",
    "steps",
    "train_size",
    "validation_size",
    "validation_seed",
    "patience",
    "threads",
)
_YES_OR_NO = (
    "score_test",
    "sync_batchnorm",
    "activation_checkpointing",
    "deterministic",
    "sampling",
)
_CONFIGURATION = Shape(
    {},
    {
        **dict.fromkeys(_TEXTS, "text"),
        **dict.fromkeys(_WHOLE, "whole number or null"),
        **dict.fromkeys(_YES_OR_NO, "boolean"),
        "learning_rate": "number or null",
        "hang_timeout_s": "number",
        "settings": "object",
        "log_to": "texts",
        "from_checkpoint": "text or null",
        "validation_split": "text or null",
        "monitor": "text or null",
    },
)
_DATASET = Shape(
    {},
    {
        "name": "text",
        "fingerprint": "text",
        "num_train": "whole number or null",
        "num_test": "whole number or null",
        "num_validation": "whole number or null",
        "num_classes": "whole number or null",
    },
)

Status = Literal["running", "completed", "interrupted", "failed"]


class _Values(dict[str, Any]):
    """Values of a record by name; a missing value raises the error of a damaged record."""

    def __missing__(self, key: str) -> Any:
        raise TarmacError(f"run.json is damaged: it does not say {key}")

    @classmethod
    def of(cls, shape: Shape) -> Callable[[dict[str, Any]], _Values]:
        """Return a validator for the values of a shape."""
        return lambda fields: cls(shape.checked(fields))


def now() -> datetime:
    """Return the current time, in UTC and whole milliseconds."""
    time = datetime.now(UTC)
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


class GitState(BaseModel):
    """The commit that a run was started from, and whether files differed from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    commit: str
    branch: str | None
    dirty: bool


class Session(BaseModel):
    """One process that worked on a run; a resumed run has several."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    started_at: Moment
    pid: int


class Replica(BaseModel):
    """A replica of the model, with its speed.

    Attributes:
        rank: Global rank of the replica, from 0.
        host: Name of the machine that it ran on.
        device: Facts on the replica's device, from `Device.to_record`.
        samples_per_s: Training samples per second of the last session, without the time spent
            waiting for others.
        waiting_s: Seconds of the last session that the replica waited for others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rank: int
    host: str
    device: dict[str, Any]
    samples_per_s: float
    waiting_s: float


class Parallel(BaseModel):
    """The devices of a training, and the strategy that used them.

    Attributes:
        strategy: ``single``, ``ddp``, ``fsdp`` or ``towers``.
        world_size: Number of devices on all machines.
        backend: Library that exchanged gradients between processes: ``nccl``, ``gloo`` or ``none``.
        replicas: A replica per device; empty before the end of a session.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: str
    world_size: int
    backend: str
    replicas: tuple[Replica, ...] = ()


class Best(BaseModel):
    """The best checkpoint of a run, among those that were written.

    Attributes:
        epoch: Number of epochs completed at the checkpoint.
        metric: Metric that the checkpoint is the best by, such as ``val_accuracy``.
        value: Value of `metric` at that checkpoint.
        file: Path of the checkpoint, from the run's directory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epoch: int
    metric: str
    value: float
    file: str


class RunRecord(BaseModel):
    """The content of ``run.json``.

    Attributes:
        schema_version: Version of the layout of ``run.json``.
        id: Random identifier of the run, 16 hexadecimal digits.
        workload: Name of the trained workload.
        status: Status of the run. A killed run still says ``running``; see `Run.status`.
        created_at: Time when the run was created, UTC.
        ended_at: Time when the run last ended; None while it runs.
        elapsed_s: Wall-clock seconds of all sessions.
        command: Command line; empty for a run started from Python.
        configuration: Effective value of every setting, by name.
        dataset: Name, fingerprint and sample counts of the dataset.
        device: Device of the run; the first of several.
        parallel: Strategy and replicas; None in records of schema 1.
        launch: Name of the launch that trains this run; a restarted launch finds the run by it.
            Empty for none.
        versions: Versions of Python, Tarmac, the main packages, CUDA and cuDNN, by name.
        seed: Seed of all random choices in the run.
        git: State of the git repository; None outside a repository.
        metrics: Final values, such as ``test_accuracy``.
        judged_by: Metric that the run is judged by. Accuracy in records before schema 5.
        best: Best checkpoint; None without held-out data, or before the first checkpoint.
        expectation: Expected result, and whether it was met; None without an expectation.
        stopped_early: Why the run was completed before its last epoch; None if it was not.
        uploaded_to: URI that the run's copy is below; None without a copy.
        error: Reason for the failure. None for a run that did not fail.
        energy_joules: Energy of the run's GPUs in all sessions, as far as sampled, in joules; None
            where no GPU reports it, or without sampling.
        throttled_s: Seconds with lowered clocks by ``power`` and ``thermal``, each the maximum over
            the run's GPUs; None where unknown.
        mfu: Model FLOPs utilisation in training, 0 to 1: share of the GPUs' peak FLOP/s that matrix
            products used, forward and backward. None where the chip's peak is unknown.
        tracked: URL or id of the run in each tracker, by the tracker's name.
        sessions: Processes that worked on the run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    id: str
    workload: str
    status: Status
    created_at: Moment
    ended_at: Moment | None = None
    elapsed_s: float = 0.0
    command: tuple[str, ...]
    configuration: Annotated[dict[str, Any], AfterValidator(_Values.of(_CONFIGURATION))]
    dataset: Annotated[dict[str, Any], AfterValidator(_Values.of(_DATASET))]
    device: dict[str, Any]
    parallel: Parallel | None = None
    launch: str = ""
    versions: dict[str, str]
    seed: int
    git: GitState | None
    metrics: dict[str, float] = {}
    judged_by: JudgedBy = JudgedBy()
    best: Best | None = None
    expectation: dict[str, Any] | None = None
    stopped_early: str | None = None
    uploaded_to: str | None = None
    error: str | None = None
    energy_joules: float | None = None
    throttled_s: dict[str, float] | None = None
    mfu: float | None = None
    tracked: dict[str, str] = {}
    sessions: tuple[Session, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _with_later_settings(cls, content: Any) -> Any:
        version = content.get("schema_version", SCHEMA_VERSION)
        configuration = content.get("configuration")
        if version < 7 and isinstance(configuration, dict):
            return content | {"configuration": _BEFORE_7 | configuration}
        return content


def read_record(path: Path) -> RunRecord:
    """Read a ``run.json`` file.

    Raises:
        RequestError: A newer Tarmac wrote the record, or the file is missing.
        TarmacError: The record is damaged, or is of the newest version and lacks a field.
    """
    record = read_versioned(path, RunRecord, SCHEMA_VERSION, "run")
    missing = sorted(RunRecord.model_fields.keys() - record.model_fields_set)
    if missing and record.schema_version == SCHEMA_VERSION:
        raise damaged_record(path, f"{missing[0]}: Field required")
    return record
