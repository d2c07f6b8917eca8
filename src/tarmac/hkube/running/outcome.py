"""The end of a pipeline's run, as a value and in ``result.json``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tarmac.hkube.extended_json import write_json

# A file in the run's directory.
RESULT = "result.json"

_STATUS = {"succeeded": "completed", "failed": "failed", "interrupted": "stopped"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PipelineEnd:
    """The end of a pipeline's run.

    Attributes:
        path: Directory of the run, with ``result.json``.
        name: Name of the pipeline that ran.
        outcome: Outcome of the run. ``interrupted``: it was stopped and can be resumed.
        reason: Reason for a failure or interruption. Empty: success.
        results: Results in HKube's form. Empty unless the run succeeded.
        is_algorithm: Whether the run is a single task of one algorithm.
        counts: Number of tasks, by outcome.
        seconds: Duration of the run in this session.
        is_left: Whether the engine continues the run's tasks without this process.
    """

    path: Path
    name: str
    outcome: Literal["succeeded", "failed", "interrupted"]
    reason: str = ""
    results: Sequence[Mapping[str, Any]] = ()
    is_algorithm: bool = False
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    is_left: bool = False

    @property
    def result(self) -> Any:
        """The result of a single algorithm, or all results of a pipeline in HKube's form."""
        if self.is_algorithm and len(self.results) == 1 and "result" in self.results[0]:
            return self.results[0]["result"]
        return [*self.results]


def write_result(end: PipelineEnd) -> None:
    """Write a run's results into its directory, in the form of HKube's API.

    Raises:
        StorageError: The file cannot be written.
    """
    value: dict[str, Any] = {
        "jobId": end.path.name,
        "pipeline": end.name,
        "status": _STATUS[end.outcome],
        "timeTook": round(end.seconds, 3),
    }
    if end.outcome == "succeeded":
        value["data"] = [*end.results]
    else:
        value["error"] = end.reason
    write_json(end.path / RESULT, value)
