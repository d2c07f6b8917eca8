"""How a pipeline's run has ended, as a value and in ``result.json``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

from tarmac.hkube.extended_json import write_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# The file's name in the run's directory.
RESULT = "result.json"

_STATUS = {"succeeded": "completed", "failed": "failed", "interrupted": "stopped"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PipelineEnd:
    """How a pipeline's run has ended.

    Attributes:
        path: Directory of the run, with ``result.json``.
        name: Name of the pipeline that ran.
        outcome: ``interrupted`` where it was stopped, and can go on.
        reason: Why it has failed.
        results: As HKube lists them; empty where it has not succeeded.
        is_algorithm: Whether it is one task of one algorithm.
        counts: Number of tasks, by outcome.
        seconds: Duration of the run in this session.
        is_left: Whether it goes on without this process, as an engine has what is at work.
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
        """An algorithm's own result; of a pipeline all, as HKube lists them."""
        if self.is_algorithm and len(self.results) == 1 and "result" in self.results[0]:
            return self.results[0]["result"]
        return [*self.results]


def write_result(end: PipelineEnd) -> None:
    """Write a run's results into its directory, as HKube's API gives them.

    Raises:
        StorageError: They cannot be written.
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
