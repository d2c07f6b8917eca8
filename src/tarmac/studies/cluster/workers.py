"""The workers of a study on a cluster, and their job: an equal task per worker."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError
from tarmac.files import trust_in_this_user
from tarmac.jobs import Job, escape, find_executor
from tarmac.processes import python_command
from tarmac.studies.methods.registry import find_method
from tarmac.studies.request import DEFAULT_GENERATIONS, Request

if TYPE_CHECKING:
    from tarmac.studies.study.study import Study

# Exit code of a worker whose time is over while trials are left: EX_TEMPFAIL of sysexits.h, "the
# user is invited to retry".
AGAIN = 75

# Subdirectory of a study for the runs of its workers.
RUNS = "cluster"

# Environment variable with the URL of the study's database, if it holds a password.
STORAGE_VARIABLE = "TARMAC_STUDY_STORAGE"

# Maximum number of times that a worker's time may be over, each time with trials done.
_MAX_TURNS = 100_000

_MEET = "the workers of a search meet in its directory"

# Without this variable a worker would look for data elsewhere.
_PASSED_ON = ("TARMAC_DATA",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workers:
    """Workers of a study on a cluster.

    Attributes:
        on: Executor of the workers, one of `tarmac.jobs.executor_names`.
        count: Maximum number of workers, at least 1.
        cpus: CPU cores of each worker. Default 1.
        gpus: GPUs of each worker. Default 0.
        memory: Memory of each worker in bytes; None sets no limit.
        time_s: Seconds that each worker may work; another worker follows while trials are left.
            None for the cluster's own limit.
        options: Options of the executors, by executor name.
    """

    on: str
    count: int
    cpus: float = 1.0
    gpus: float = 0.0
    memory: int | None = None
    time_s: float | None = None
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            RequestError: A number is too small, or the workers could not share a directory.
        """
        if self.count < 1:
            raise RequestError(f"workers is {self.count}, expected at least 1")
        if self.time_s is not None and self.time_s < 1:
            raise RequestError(f"a worker's time is {self.time_s:g} s, expected at least 1")
        refuse_apart = find_executor(self.on).refuse_apart
        if refuse_apart is not None:
            refuse_apart(self.options.get(self.on, {}), _MEET)


def most_workers(
    request: Request, num_networks: int | None, *, num_done: int = 0, num_trained: int = 0
) -> int:
    """Return the number of workers that a search has trials for at a time, at least 1.

    Args:
        request: Request that the study carries out.
        num_networks: Number of networks in its space; None for infinitely many.
        num_done: Number of finished trials. Default 0.
        num_trained: Number of finished trials that were trained. Default 0.
    """
    if find_method(request.method).breeds_generations:
        ends = [request.population]
    elif request.trials is None and request.budget is None:
        ends = [(request.generations or DEFAULT_GENERATIONS) * request.population - num_done]
    else:
        ends = []
    if request.trials is not None:
        ends.append(request.trials - num_trained)
    if num_networks is not None:
        ends.append(num_networks - num_done)
    return max(1, min(ends)) if ends else 2**31


def most_workers_of(study: Study) -> int:
    """Return the number of workers that the rest of a study has trials for; see `most_workers`."""
    ledger = study.ledger
    ledger.refresh()
    num_done = sum(trial.state.is_finished() for trial in ledger.trials)
    return most_workers(
        study.request, study.space.size, num_done=num_done, num_trained=len(ledger.trained)
    )


def workers_job(
    directory: Path, workers: Workers, most: int, *, has_secret_storage: bool = False
) -> Job:
    """Return the job of a study's workers.

    Args:
        directory: Directory of the study, which each worker opens.
        workers: Workers to request from the cluster.
        most: Number of workers that have trials, from `most_workers`.
        has_secret_storage: Whether workers get the database's URL as a secret, in
            `STORAGE_VARIABLE`.
    """
    count = min(workers.count, most)
    path = escape(str(directory.resolve()))
    words = ("tarmac", "search", "worker", path, "--of", str(count))
    command = python_command(*words, python="{{ tarmac.python }}")
    options = {name: dict(values) for name, values in workers.options.items()}
    model = find_executor(workers.on).options
    known = {} if model is None else model.model_fields
    if "requeue_on_timeout" in known:
        # Requeue a worker killed at its time limit too: its networks return to the queue.
        options.setdefault(workers.on, {})["requeue_on_timeout"] = True
    if workers.time_s is not None:
        command += ["--time", f"{workers.time_s:g}s"]
        if "time" in known:
            options.setdefault(workers.on, {})["time"] = workers.time_s
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    resources: dict[str, Any] = {"cpus": workers.cpus, "gpus": workers.gpus}
    if workers.memory is not None:
        resources["memory"] = workers.memory
    fields: dict[str, Any] = {
        "name": "search",
        "tasks": [
            {
                "name": "worker",
                "command": command,
                "sweep": {"repeat": count},
                "retries": {"count": _MAX_TURNS, "backoff": "1ms", "exit_codes": [AGAIN]},
            }
        ],
        "env": {name: str(Path(value).resolve()) for name, value in passed.items()}
        | trust_in_this_user(),
        "resources": resources,
        "options": options,
    }
    if has_secret_storage:
        fields["secrets"] = {STORAGE_VARIABLE: {"env": STORAGE_VARIABLE}}
    return Job.model_validate(fields)
