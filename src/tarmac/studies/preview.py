"""What a search would do, without a study being made or a worker begun."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac import runs
from tarmac.studies.cluster.workers import RUNS, most_workers, workers_job
from tarmac.studies.notation import text_of
from tarmac.studies.opening import check_changes, check_new
from tarmac.studies.study.record import held_out_in_words
from tarmac.studies.study.storage import has_password, masked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.data import ValidationSplit
    from tarmac.jobs import Job
    from tarmac.studies.cluster.workers import Workers
    from tarmac.studies.opening import Checked
    from tarmac.studies.request import Request
    from tarmac.studies.space import Space
    from tarmac.studies.study.record import StudyRecord
    from tarmac.training import Setting

# A new study's directory, which would get a name of its own.
_NEW = "STUDY"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preview:
    """What a search would do.

    Attributes:
        request: Request that the search would carry out.
        directory: The study's; of a new one, where it would be made, with ``STUDY`` for its name.
        space: What is searched over.
        settings: Those of all networks.
        num_done: Trials that have ended.
        train_size: Samples that each network trains on.
        validation_size: Samples that judge it.
        validation_split: How samples are held out: ``random``, ``last`` or ``own``.
        runs: Where runs of its workers' job would be made.
        job: Job of the workers; None where this machine searches.
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
        """How many the space has; None for infinitely many."""
        return self.space.size

    @property
    def file(self) -> dict[str, Any]:
        """A study's file that asks for this search, wherever it is put."""
        request = self.request
        content = request.model_dump(mode="json", include=request.model_fields_set)
        if request.storage is not None and has_password(request.storage):
            # It is masked here; who has it names it again.
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
        """How many samples judge each network, and which, in words."""
        return held_out_in_words(self.validation_size, self.validation_split)


def preview_search(
    what: str | Path | None = None,
    *,
    output: str | Path | None = None,
    resume: str | Path | None = None,
    cluster: Workers | None = None,
    **fields: Any,
) -> Preview:
    """Say what `search` would do; see there.

    Raises:
        RequestError: The request cannot be met.
        TarmacError: Its data cannot be had.
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
