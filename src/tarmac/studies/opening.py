"""Create a study from a request, or find a study to resume, after checks on this machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac import runs
from tarmac.data import Dataset, HoldOut, ValidationSplit, default_validation_size, hold_out
from tarmac.errors import RequestError, quoted
from tarmac.files import is_network, refuse_foreign_python, refuse_going_on
from tarmac.machine import find_devices
from tarmac.runs import JudgedBy
from tarmac.studies.errors import FieldError
from tarmac.studies.evaluation.corners import check_corners
from tarmac.studies.evaluation.dataset import load_dataset
from tarmac.studies.methods.registry import find_method
from tarmac.studies.objectives import COSTS, Objective, find_objectives
from tarmac.studies.request import (
    CHANGEABLE,
    Request,
    is_file,
    locate,
    make_request,
    request_of,
    study_names,
)
from tarmac.studies.space import Space
from tarmac.studies.study.catalogue import find_study
from tarmac.studies.study.study import Study
from tarmac.studies.study.writer import StudyWriter
from tarmac.studies.tunables import make_space
from tarmac.training import Setting, settings_of
from tarmac.workloads import Workload, find_workload, judged_by, monitored, workload_names


def open_study(
    what: str | Path | None = None,
    *,
    output: str | Path | None = None,
    resume: str | Path | None = None,
    is_shared: bool = False,
    **fields: Any,
) -> StudyWriter:
    """Create the study for `search`, or find the study to resume.

    Args:
        what: A workload, a study file, or a built-in study.
        output: Directory in which the study's directory is created.
        resume: Study to resume, instead of a new one.
        is_shared: Whether workers on several hosts will search, instead of this process.
        **fields: Fields of a `Request`, by name.

    Raises:
        RequestError: The request cannot be met; nothing was created.
        TarmacError: The dataset cannot be loaded, or the storage cannot be reached.
    """
    root = Path(output) if output is not None else runs.default_output()
    if resume is not None:
        study = resume_study(str(resume), root, fields, what=what)
        # The host that owns the disk may work on the study with kernel locks, unseen from here.
        is_elsewhere = study.record.locks == "kernel" and is_network(study.path)
        return study.shared() if is_shared or is_elsewhere else study
    checked = check_new(what, fields, is_shared=is_shared)
    assert what is not None
    return StudyWriter.create(
        root,
        _name(what),
        checked.request,
        checked.space,
        checked.settings,
        train_size=checked.train_size,
        validation_size=checked.validation_size,
        validation_split=checked.validation_split,
        judged_by=checked.judged_by,
        is_shared=is_shared,
    )


def check_new(
    what: str | Path | None, fields: Mapping[str, Any], *, is_shared: bool = False
) -> Checked:
    """Check the request for `open_study` without creating anything.

    Args:
        what: A workload, a study file, or a built-in study.
        fields: Fields of a `Request`, by name.
        is_shared: Whether workers on several hosts will search, instead of this process.

    Raises:
        RequestError: The request cannot be met.
        TarmacError: The dataset cannot be loaded.
    """
    if what is None:
        raise RequestError(
            "no workload or study is named",
            hint=f"Name one: tarmac search {workload_names()[0]} --set KEY=v1,v2, or one of the "
            f"studies that come with Tarmac: {', '.join(study_names())}",
        )
    try:
        request = request_of(what, fields)
        _refuse_unused_limit(request, fields)
        return _check(request, is_shared=is_shared)
    except FieldError as error:
        raise locate(error, what, fields) if is_file(what) else error from error


def _refuse_unused_limit(request: Request, fields: Mapping[str, Any]) -> None:
    """Refuse generations for a method that has none; a study file may name them for another."""
    if fields.get("generations") is not None and find_method(request.method).tries_all:
        raise RequestError(
            f"generations is {fields['generations']}, but method {request.method} tries every "
            "network and has no generations",
            hint="Limit it by --trials or --budget.",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checked:
    """A request that was checked, with every value resolved.

    Attributes:
        request: Request with every value filled in.
        space: Search space of the study.
        settings: Settings that all networks share.
        train_size: Samples that each network trains on.
        validation_size: Held-out samples on which each network is scored.
        validation_split: How samples are held out: ``random``, ``last`` or ``own``.
        judged_by: Metric that judges the workload, with its direction.
    """

    request: Request
    space: Space
    settings: Mapping[str, Setting]
    train_size: int
    validation_size: int
    validation_split: ValidationSplit
    judged_by: JudgedBy


def _check(request: Request, *, is_shared: bool) -> Checked:
    workload = find_workload(request.workload)
    space, settings = make_space(request.space, workload, settings_of(workload))
    judged, monitored_by = judged_by(workload), _judged_by(workload, request.monitor)
    if not request.objective:
        judged = monitored_by
    objectives = find_objectives(request.objective, judged)
    monitor = _monitor(monitored_by, objectives, request.monitor)
    _refuse_senseless(request, objectives, workload)
    find_method(request.method).check_space(space, len(objectives))
    if is_shared and (request.storage or "").startswith("sqlite"):
        raise FieldError(
            ("storage",),
            "storage is SQLite, which only one host may write",
            hint="Leave it out: the journal is made for hosts that share a directory. Or: "
            "--storage postgresql://user@host/name",
        )
    if not is_shared:
        find_devices(str(request.devices))
    dataset = load_dataset(workload, settings)
    held = _held_out(request, dataset)
    check_corners(space, workload, dataset, settings)
    epochs = request.epochs or workload.recipe.epochs
    reference = _absolute(request.workload)
    update = {"epochs": epochs, "workload": reference, "monitor": monitor}
    request = request.model_copy(update=update)
    return Checked(
        request=request,
        space=space,
        settings=settings,
        train_size=len(held.train),
        validation_size=len(held.validation),
        validation_split=held.split,
        judged_by=judged,
    )


def _judged_by(workload: Workload, monitor: str | None) -> JudgedBy:
    """Return the metric that judges a workload; ``monitor`` replaces the workload's own."""
    if monitor is None:
        return judged_by(workload)
    try:
        changed = monitored(workload.objective, monitor)
    except RequestError as error:
        raise FieldError(("monitor",), error.message, hint=error.hint) from error
    return judged_by(dataclasses.replace(workload, objective=changed))


def _monitor(judged: JudgedBy, objectives: Sequence[Objective], monitor: str | None) -> str:
    """Return the metric that patience watches, with its direction."""
    first = objectives[0]
    if monitor is None and first.name not in COSTS:
        return f"{runs.bare_name(first.metric)}:{first.direction}"
    return f"{judged.metric}:{judged.direction}"


def resume_study(
    reference: str, output: Path, fields: Mapping[str, Any], *, what: str | Path | None = None
) -> StudyWriter:
    """Find a study to resume and set its new limits; see `check_changes`."""
    study, request = check_changes(reference, output, fields, what=what)
    if request != study.request:
        study.update(request=request.model_dump(mode="json"))
    return study


def check_changes(
    reference: str, output: Path, fields: Mapping[str, Any], *, what: str | Path | None = None
) -> tuple[StudyWriter, Request]:
    """Find a study to resume and build its new request; change nothing.

    Args:
        reference: Directory or name of the study, or ``"latest"``.
        output: Directory that holds the studies.
        fields: Fields of a request. Those in `CHANGEABLE` may have new values; all others decide
            which networks are tried, and may only repeat their values.
        what: Workload or study file, if named again.

    Raises:
        RequestError: There is no such study, or a change would make it another search.
    """
    storage = fields.get("storage")
    url = None if storage is None else str(storage)
    study = StudyWriter.open(find_study(reference, output, url).path, url)
    before = study.request
    changes = {name: value for name, value in fields.items() if name != "storage"}
    source = study.path / "study.json"
    again = quoted("tarmac", "search", before.workload, "--resume", study.path)
    if what is None:
        refuse_foreign_python(before.workload, source, again=again)
    refuse_going_on(source, is_named=what is not None, again=again)
    if what is not None and is_file(what):
        request = request_of(what, changes)
    else:
        unchanged = {name: getattr(before, name) for name in type(before).model_fields}
        texts = {**unchanged["space"], **changes.get("space", {})}
        named = {} if what is None else {"workload": str(what)}
        request = make_request({**unchanged, **changes, **named, "space": texts})
    workload = find_workload(request.workload)
    space, settings = make_space(request.space, workload, settings_of(workload))
    names = request.objective
    if names != before.objective:
        new_objectives = find_objectives(names, study.record.judged_by)
        names = tuple(objective.name for objective in new_objectives)
        if names == before.objective and new_objectives != study.objectives:
            then, now = (
                _directions(objectives) for objectives in (study.objectives, new_objectives)
            )
            raise _begun(study, f"with objective {then}, not {now}")
    monitor = before.monitor
    if request.monitor not in (None, before.monitor):
        monitor = _monitor(_judged_by(workload, request.monitor), study.objectives, request.monitor)
    request = request.model_copy(
        update={
            "monitor": monitor,
            "objective": names,
            "epochs": request.epochs or workload.recipe.epochs,
            "workload": _absolute(request.workload),
            "storage": before.storage,
        }
    )
    if request.validation_split == study.record.validation_split:
        request = request.model_copy(update={"validation_split": before.validation_split})
    differs = [name for name in before.changed(request) if name not in ("space", "datasets")]
    if space.fingerprint != study.space.fingerprint or settings != study.record.settings:
        differs.append("space")
    if differs:
        raise _other_search(study, request, space, differs)
    limits = {name: getattr(request, name) for name in CHANGEABLE if name in changes}
    return study, before.model_copy(update=limits)


def _name(what: str | Path) -> str:
    text = str(what)
    path, separator, attribute = text.rpartition(":")
    if separator:
        return f"{Path(path).stem}-{attribute}"
    return Path(text).stem if is_file(text) else text


def _refuse_senseless(
    request: Request, objectives: Sequence[Objective], workload: Workload
) -> None:
    for name in ("learning_rate", "batch_size"):
        text = request.space.get(name)
        values = () if text is None else (*(text.choices or ()), text.low, text.high)
        wrong = [value for value in values if value is not None and float(value) <= 0]
        if wrong:
            raise FieldError(("space", name), f"{name} is {wrong[0]}, expected above 0")
    if any(objective.name == "epochs" for objective in objectives) and request.patience is None:
        raise FieldError(
            ("objective",),
            f"epochs is an objective, but every network of {workload.name} trains equally long",
            hint="Stop them early: --patience 5",
        )


def _held_out(request: Request, dataset: Dataset) -> HoldOut:
    """Return the training samples and the held-out samples of each network."""
    total, size = len(dataset.train), request.validation_size
    has_own = dataset.validation is not None and request.validation_split in ("auto", "own")
    if size is None and not has_own:
        size = default_validation_size(total, request.train_size)
    train_size = request.train_size
    if not has_own and size is not None and max(train_size or 1, 1) + size > total:
        if train_size is None:
            raise FieldError(
                ("validation_size",),
                f"validation_size is {size}, which leaves none of the {total} samples of "
                f"{dataset.name} to train on",
            )
        raise FieldError(
            ("train_size",),
            f"{train_size} samples to train on and {size} held out are {train_size + size},"
            f" and {dataset.name} has {total}",
        )
    held = hold_out(
        dataset,
        validation_size=size,
        train_size=train_size,
        split=request.validation_split,
        seed=request.seed,
    )
    held.check_classes(dataset)
    return held


def _absolute(reference: str) -> str:
    """Make the path of a workload's file absolute, so that every process and session finds it."""
    path, separator, attribute = reference.rpartition(":")
    return f"{Path(path).resolve()}:{attribute}" if separator else reference


def _other_search(study: Study, request: Request, space: Space, differs: list[str]) -> RequestError:
    name = differs[0]
    if name == "space":
        before, now = study.space.to_record(), space.to_record()
        names = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        what = f"over another space ({', '.join(names) or 'other fixed settings'})"
    elif name == "validation_split":
        what = f"with {name} {study.record.validation_split}, not {request.validation_split}"
    else:
        what = f"with {name} {getattr(study.request, name)}, not {getattr(request, name)}"
    return _begun(study, what)


def _directions(objectives: Sequence[Objective]) -> str:
    return ", ".join(f"{objective.name}:{objective.direction}" for objective in objectives)


def _begun(study: Study, what: str) -> RequestError:
    return RequestError(
        f"study {study.name} was started {what}",
        hint="Leave that out to resume the study, or leave out --resume to start a new one.",
    )
