"""The verb: makes a study of a request, or goes on with one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac import runs
from tarmac.errors import RequestError, TarmacError
from tarmac.machine import find_devices
from tarmac.studies.confirm import NUM_SEEDS, confirm
from tarmac.studies.evaluation.choice import choose_evaluator, slots_of
from tarmac.studies.evaluation.dataset import load_dataset
from tarmac.studies.loop import Search
from tarmac.studies.methods.samplers import check_method
from tarmac.studies.methods.written import FieldError, make_space
from tarmac.studies.observer import Reporter, Silent
from tarmac.studies.request import (
    CHANGEABLE,
    Request,
    is_file,
    locate,
    make_request,
    read_request,
    study_names,
)
from tarmac.studies.study.storage import loss_of_database
from tarmac.studies.study.study import Study, find_study
from tarmac.studies.study.writer import StudyWriter
from tarmac.studies.winner import complete_trials, conclude
from tarmac.training import StopRequest, settings_of
from tarmac.workloads import find_workload, workload_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tarmac.studies.methods.space import Space
    from tarmac.training import Setting
    from tarmac.workloads import Workload

__all__ = ["open_study", "prepare", "request_of", "resume_study", "search", "work_on"]

_MOST_HELD_OUT = 10_000


def search(
    what: str | Path | None = None,
    *,
    output: str | Path | None = None,
    resume: str | Path | None = None,
    reporter: Reporter | None = None,
    **fields: Any,
) -> Study:
    """Search for a good network and return the study.

    Args:
        what: A workload, a study's file (``.yaml``), or a study that comes with Tarmac
            (``"mlp-evolve"``).
        output: The directory in which the study's own is made; by default
            `tarmac.runs.default_output`.
        resume: A study to go on with, instead: its directory, its name, or ``"latest"``.
        reporter: Who is told how it goes; nobody by default.
        **fields: Of `tarmac.studies.Request`: ``method``, ``space``, ``generations`` and so on.

    Returns:
        The study, e.g. ``study.best.test_accuracy``. One that a signal stopped has
        ``study.record.status == "interrupted"``.

    Raises:
        RequestError: The request cannot be met; nothing was started.
        TarmacError: The search failed; what it had done so far is in its study.

    Example:
        >>> study = tarmac.search("digits-mlp", space={"hidden": [16, 32]}, generations=2)
    """
    study = open_study(what, output=output, resume=resume, **fields)
    return work_on(study, reporter or Silent())


def open_study(
    what: str | Path | None = None,
    *,
    output: str | Path | None = None,
    resume: str | Path | None = None,
    **fields: Any,
) -> StudyWriter:
    """Make the study that `search` searches, or find the one that it goes on with.

    Raises:
        RequestError: The request cannot be met; nothing was made.
        TarmacError: Its data cannot be had, or its storage not be reached.
    """
    root = Path(output) if output is not None else runs.default_output()
    if resume is not None:
        return resume_study(str(resume), root, fields, what=what)
    if what is None:
        raise RequestError(
            "no workload or study is named",
            hint=f"Name one: tarmac search {workload_names()[0]} --set KEY=v1,v2, or one of the "
            f"studies that come with Tarmac: {', '.join(study_names())}",
        )
    try:
        return prepare(request_of(what, fields), root, name=_name(what))
    except FieldError as error:
        raise locate(error, what) if is_file(what) else error from error


def request_of(what: str | Path, fields: Mapping[str, Any]) -> Request:
    """Make a request of a workload's name, a study's name or a study's file.

    Raises:
        RequestError: It is none of them, or the request is wrong.
    """
    if is_file(what):
        return read_request(what, fields)
    return make_request({**fields, "workload": str(what)})


def prepare(request: Request, output: Path, *, name: str) -> StudyWriter:
    """Check a request against what is here, and make its study.

    Raises:
        RequestError: It cannot be met; nothing was made.
        TarmacError: Its data cannot be had, or its storage not be reached.
    """
    workload = find_workload(request.workload)
    space, settings = make_space(request.space, workload, settings_of(workload))
    _refuse_senseless(request, workload)
    check_method(request, space)
    slots_of(find_devices(str(request.devices)), request.workers)
    train_size, validation_size = _sizes(request, workload, settings)
    epochs = request.epochs or workload.recipe.epochs
    reference = _absolute(request.workload)
    request = request.model_copy(update={"epochs": epochs, "workload": reference})
    return StudyWriter.create(
        output,
        name,
        request,
        space,
        settings,
        train_size=train_size,
        validation_size=validation_size,
    )


def resume_study(
    reference: str, output: Path, fields: Mapping[str, Any], *, what: str | Path | None = None
) -> StudyWriter:
    """Find a study to go on with, and give it new limits.

    Args:
        reference: Its directory, its name, or ``"latest"``.
        output: Where studies lie.
        fields: Of a request: those in `CHANGEABLE` may be new; what decides which networks are
            tried may be given again, if it is the same.
        what: Its workload or file, if given again.

    Raises:
        RequestError: There is none, or something is asked for that would be another search.
    """
    storage = fields.get("storage")
    url = None if storage is None else str(storage)
    study = StudyWriter.open(find_study(reference, output, url).path, url)
    before = study.request
    given = {name: value for name, value in fields.items() if name != "storage"}
    if what is not None:
        asked = request_of(what, given)
    else:
        kept = {name: getattr(before, name) for name in type(before).model_fields}
        texts = {**kept["space"], **given.get("space", {})}
        asked = make_request({**kept, **given, "space": texts})
    workload = find_workload(asked.workload)
    space, settings = make_space(asked.space, workload, settings_of(workload))
    asked = asked.model_copy(
        update={
            "epochs": asked.epochs or workload.recipe.epochs,
            "workload": _absolute(asked.workload),
            "storage": before.storage,
        }
    )
    differs = [name for name in before.changed(asked) if name not in ("space", "datasets")]
    if space.fingerprint != study.space.fingerprint or settings != study.record.settings:
        differs.append("space")
    if differs:
        raise _other_search(study, asked, space, differs)
    limits = {name: getattr(asked, name) for name in CHANGEABLE if name in given}
    if limits:
        study.update(request=before.model_copy(update=limits).model_dump(mode="json"))
    return study


def work_on(
    study: StudyWriter, reporter: Reporter, *, stop: Callable[[], bool] | None = None
) -> Study:
    """Search until the study is over, or a signal comes.

    Args:
        study: Which.
        reporter: Is told how it goes.
        stop: Whether to stop; by default once SIGINT or SIGTERM has come.

    Raises:
        TarmacError: The search failed.
    """
    with StopRequest() as signals, study.leases.work() as owner:
        asked = stop or (lambda: bool(signals))
        study.update(status="running", ended_at=None, error=None)
        try:
            go_on = f"tarmac search --resume {study.path}"
            with loss_of_database(study.record.storage, go_on):
                _work(study, owner, reporter, asked)
        except BaseException as error:
            # A disk may be full now: what ended the search is what the user must hear of.
            with contextlib.suppress(TarmacError):
                if isinstance(error, KeyboardInterrupt):
                    study.end("interrupted")
                else:
                    study.end("failed", error=str(error) or type(error).__name__)
            raise
        finally:
            reporter.ended(study)
    return study


def _work(study: StudyWriter, owner: str, reporter: Reporter, stop: Callable[[], bool]) -> None:
    request = study.request
    devices = find_devices(str(request.devices))
    search = Search(study, owner, reporter, stop)
    chosen = choose_evaluator(study, devices, search.halted)
    study.ledger.refresh()
    reporter.began(study, chosen.summary)
    if (study.record.storage or "").startswith("sqlite"):
        reporter.noted(
            "SQLite is slow and may fail where several processes write; without --storage the "
            "study is a journal, which is made for that"
        )
    try:
        why = search.run(chosen)
        # Time that is over is not spent on this either.
        if why is not None and request.confirm and not search.halted():
            study.ledger.refresh()
            reporter.noted(f"the best {request.confirm} are trained from {NUM_SEEDS} more seeds")
            if not confirm(study, complete_trials(study), chosen.evaluator, stop):
                why = None
    finally:
        chosen.close()
    # Alone, so on all threads of the device, as `tarmac train` makes the same network.
    slot = slots_of(devices, 1)[0]
    if why is None or not conclude(study, why, slot, reporter, stop):
        study.end("interrupted")


def _name(what: str | Path) -> str:
    text = str(what)
    path, separator, attribute = text.rpartition(":")
    if separator:
        return f"{Path(path).stem}-{attribute}"
    return Path(text).stem if is_file(text) else text


def _refuse_senseless(request: Request, workload: Workload) -> None:
    for name in ("learning_rate", "batch_size"):
        text = request.space.get(name)
        given = () if text is None else (*(text.choices or ()), text.low, text.high)
        wrong = [value for value in given if value is not None and float(value) <= 0]
        if wrong:
            raise FieldError(("space", name), f"{name} is {wrong[0]}, expected above 0")
    if "epochs" in request.objective and request.patience is None:
        raise FieldError(
            ("objective",),
            f"epochs is an objective, but every network of {workload.name} trains equally long",
            hint="Let them stop: --patience 5",
        )


def _sizes(
    request: Request, workload: Workload, settings: Mapping[str, Setting]
) -> tuple[int, int]:
    """Return how many samples each network trains on, and how many judge it."""
    dataset = load_dataset(workload, settings)
    total = len(dataset.train)
    default = total // 6
    if request.train_size is not None:
        default = min(request.train_size // 5, total - request.train_size)
    held_out = request.validation_size or min(_MOST_HELD_OUT, max(1, default))
    train_size = request.train_size or total - held_out
    if held_out + train_size > total or train_size < 1:
        raise FieldError(
            ("train_size" if request.train_size else "validation_size",),
            f"{train_size} samples to train on and {held_out} held out are {train_size + held_out},"
            f" and {dataset.name} has {total}",
        )
    return train_size, held_out


def _absolute(reference: str) -> str:
    """Make a workload's file absolute, so that every process and a later session finds it."""
    path, separator, attribute = reference.rpartition(":")
    return f"{Path(path).resolve()}:{attribute}" if separator else reference


def _other_search(study: Study, asked: Request, space: Space, differs: list[str]) -> RequestError:
    name = differs[0]
    if name == "space":
        before, now = study.space.to_record(), space.to_record()
        names = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        what = f"over another space ({', '.join(names) or 'other fixed settings'})"
    else:
        what = f"with {name} {getattr(study.request, name)}, not {getattr(asked, name)}"
    return RequestError(
        f"study {study.name} was begun {what}",
        hint="Leave that out to go on with the study, or leave out --resume to begin a new one.",
    )
