"""The preview of a search, which creates no study and starts no worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarmac import runs
from tarmac.data import ValidationSplit
from tarmac.jobs import Job
from tarmac.studies.cluster.workers import RUNS, Workers, most_workers, workers_job
from tarmac.studies.notation import text_of
from tarmac.studies.opening import Checked, check_changes, check_new
from tarmac.studies.request import Request
from tarmac.studies.space import Space
from tarmac.studies.study.record import StudyRecord, held_out_in_words
from tarmac.studies.study.storage import has_password, masked
from tarmac.training import Setting

# Placeholder for the name of a new study's directory.
_NEW = "STUDY"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preview:
    """The plan of a search.

    Attributes:
        request: Request that the search would carry out.
        directory: Directory of the study; ``STUDY`` stands for the name of a new study.
        space: Search space of the study.
        settings: Settings that all networks share.
        num_done: Number of finished trials.
        train_size: Samples that each network trains on.
        validation_size: Held-out samples on which each network is scored.
        validation_split: How samples are held out: ``random``, ``last`` or ``own``.
        runs: Directory for the runs of the workers' job.
        job: Job of the workers; None if this machine searches.
    """

    request: Request
    directory: Path
    space: Space
    settings: Mapping[str, Setting]
    num_done: int
    train_size: int
    validation_size: int
    validation_split: ValidationSplit
    runs: Path
    job: Job | None

    @property
    def num_networks(self) -> int | None:
        """Number of networks in the space; None for infinitely many."""
        return self.space.size

    @property
    def file(self) -> dict[str, Any]:
        """The content of a study file for this search, valid in any directory."""
        request = self.request
        content = request.model_dump(mode="json", include=request.model_fields_set)
        if request.storage is not None and has_password(request.storage):
            # The password is masked, so the URL would not work: users must pass it again.
            content.pop("storage", None)
        path, separator, attribute = request.workload.rpartition(":")
        is_file = separator and path.endswith(".py")
        workload = f"{Path(path).resolve()}:{attribute}" if is_file else request.workload
        space = {name: text_of(parameter) for name, parameter in self.space.parameters.items()}
        datasets = {
            name: {key: text.shortest for key, text in texts.items()}
            for name, texts in request.datasets.items()
        }
        content |= {"workload": workload, "space": {**space, **self.settings}}
        return content | ({"datasets": datasets} if datasets else {})

    @property
    def held_out(self) -> str:
        """The number and choice of held-out samples, in words."""
        return held_out_in_words(self.validation_size, self.validation_split)


def preview_search(
    what: str | Path | None = None,
    *,
    output: str | Path | None = None,
    resume: str | Path | None = None,
    cluster: Workers | None = None,
    **fields: Any,
) -> Preview:
    """Return what `search` would do with the same arguments.

    Raises:
        RequestError: The request cannot be met.
        TarmacError: The dataset cannot be loaded.
    """
    root = Path(output) if output is not None else runs.default_output()
    is_shared = cluster is not None
    if resume is not None:
        study, request = check_changes(str(resume), root, fields, what=what)
        if is_shared:
            study.check_shareable()
        directory, record, space = study.path, study.record, study.space
        settings: Mapping[str, Setting] = record.settings
        held: StudyRecord | Checked = record
        study.ledger.refresh()
        trials, num_trained = study.ledger.trials, len(study.ledger.trained)
        num_done = sum(trial.state.is_finished() for trial in trials)
    else:
        checked = check_new(what, fields, is_shared=is_shared)
        directory, request = root / _NEW, checked.request
        space, settings = checked.space, checked.settings
        if request.storage is not None:
            request = request.model_copy(update={"storage": masked(request.storage)})
        held = checked
        num_done = num_trained = 0
    job = None
    if cluster is not None:
        most = most_workers(request, space.size, num_done=num_done, num_trained=num_trained)
        storage = fields.get("storage")
        is_secret = storage is not None and has_password(storage)
        job = workers_job(directory, cluster, most, has_secret_storage=is_secret)
    return Preview(
        request=request,
        directory=directory,
        space=space,
        settings=settings,
        num_done=num_done,
        train_size=held.train_size,
        validation_size=held.validation_size,
        validation_split=held.validation_split,
        runs=directory / RUNS,
        job=job,
    )
