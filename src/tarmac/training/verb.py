"""Train, resume or extend a run in its directory, in this process or in several."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

from tarmac import data, runs
from tarmac.errors import RequestError, quoted
from tarmac.files import (
    read_object,
    refuse_going_on,
    storage_errors,
    taking_turns,
)
from tarmac.runs import Run
from tarmac.training.plan import Plan
from tarmac.training.planning.make import make_plan
from tarmac.training.planning.options import Options, TrainOptions, check_types
from tarmac.training.session.checkpoint import check_progress
from tarmac.training.session.download import fetch_run
from tarmac.training.session.epochs import EpochHook
from tarmac.training.session.modes import denormals_flushed, threads_within_limits
from tarmac.training.session.origin import check_extension, find_weights
from tarmac.training.session.record import create_run, find_begun, plan_of
from tarmac.training.session.recorded_workload import absolute_reference, workload_of
from tarmac.training.session.reporter import Reporter
from tarmac.training.session.request import TrainRequest
from tarmac.training.session.upload import RECORD
from tarmac.training.session.work import work
from tarmac.training.session.workers import WORKER
from tarmac.workloads import Workload, find_workload, reference_of


@denormals_flushed()
@threads_within_limits()
def train(
    workload: str | Workload,
    *,
    output: str | Path | None = None,
    name: str | None = None,
    reporter: Reporter | None = None,
    stop: EpochHook | None = None,
    interrupted: Callable[[], bool] | None = None,
    load: data.Loader = data.load,
    **options: Unpack[TrainOptions],
) -> Run:
    """Train a workload and return its run.

    If torchrun or another launcher has started several processes, each process must call this
    function. The first process creates the run, and all processes return it. If an earlier attempt
    of the same task has begun a run, the training resumes that run from its newest checkpoint.

    Args:
        workload: A name (``"mnist-mlp"``), ``"path/to/file.py:attribute"``, or a `Workload`. For
            ``ddp`` the workers must be able to import the workload.
        output: Directory in which the run's directory is created; by default
            `runs.default_output`. A URI, ``s3://bucket/prefix``, gets a copy of the run. The copy
            is updated as epochs end, and is complete when this function returns.
        name: Name of the run's directory; by default made of workload and time.
        reporter: Receiver of progress reports; by default none.
        stop: Called after every epoch with its line of ``metrics.jsonl``, in the training thread
            and before the epoch's checkpoint. Returns None to continue, or the reason to stop. The
            run keeps the reason as ``run.record.stopped_early``, and is otherwise completed as
            usual. If a launcher has started several processes, each must pass a function, and only
            the first process's is called. ``ddp`` in Tarmac's own workers accepts no function.
        interrupted: Called after every step; if true, save the state and stop, as on SIGINT and
            SIGTERM. For programs with another stop signal that train outside the main thread.
        load: Function that loads a dataset named by the workload; by default `tarmac.data.load`.
        **options: The fields of `Options`, such as ``epochs``, ``batch_size``, ``devices``;
            ``device`` is a synonym of ``devices``.

    Returns:
        The finished run, e.g. ``run.metrics["test_accuracy"]``. An interrupted run has
        ``run.record.status == "interrupted"``.

    Raises:
        RequestError: The request cannot be met; nothing was started.
        TarmacError: The training failed; the run keeps the results so far.
    """
    if not isinstance(workload, str | Workload):
        raise TypeError(
            f"workload is a {type(workload).__name__}, expected a name such as 'mnist-mlp', "
            "'path/to/file.py:attribute', or a Workload"
        )
    chosen = _options(options)
    reference = workload if isinstance(workload, str) else workload.name
    _refuse_recursion(reference)
    request = TrainRequest.of(output, reporter, stop, interrupted)
    rendezvous, directory, uri = request.rendezvous, request.output, request.uri
    if chosen.init_from is not None:
        weights = find_weights(chosen.init_from, directory)
        chosen = dataclasses.replace(chosen, init_from=str(weights))

    def prepare() -> tuple[Workload, Plan]:
        resolved = find_workload(workload) if isinstance(workload, str) else workload
        where, downloading = absolute_reference(reference), request.reporter.downloading
        plan = make_plan(resolved, where, chosen, downloading, rendezvous=rendezvous, load=load)
        if plan.process_per_device and rendezvous is None and not isinstance(workload, str):
            plan = dataclasses.replace(plan, reference=reference_of(workload))
        return resolved, plan

    def make_run(resolved: Workload, plan: Plan) -> Run:
        launch = request.launch
        begun = find_begun(launch, directory) if rendezvous is None else None
        if begun is None and uri is not None and name is not None:
            _refuse_stored(uri, name)
        return begun or create_run(plan, resolved, reference, directory, launch=launch, name=name)

    return work(request, prepare, make_run)


@denormals_flushed()
@threads_within_limits()
def resume(
    reference: str | Path,
    *,
    output: str | Path | None = None,
    workload: str | Workload | None = None,
    devices: str | None = None,
    reporter: Reporter | None = None,
    stop: EpochHook | None = None,
    interrupted: Callable[[], bool] | None = None,
) -> Run:
    """Resume a stopped run from its newest checkpoint.

    Args:
        reference: The run: its directory, its name, a prefix of the name, or ``"latest"``.
        output: Directory of the runs, if ``reference`` is not a path. A URI is the target of the
            copy from now on; the run itself is then in `runs.default_output`. If a run of that
            name below the URI is missing locally or has a newer checkpoint, it is downloaded first.
        workload: Workload of the run, which must match the run's record. Required if `train` got a
            `Workload` value.
        devices: Devices to use instead of the recorded ones. Only ``fsdp`` allows another number.
        reporter: Receiver of progress reports; by default none.
        stop: Called after every remaining epoch, as for `train`.
        interrupted: Called after every step; if true, save the state and stop, as for `train`.

    Returns:
        The run. On a CPU its weights are bit-identical to those of an uninterrupted training.

    Raises:
        RequestError: There is no such run, it is completed, its workload differs, or its number of
            devices differs.
        TarmacError: The training failed, or its checkpoint is damaged.
    """
    request = TrainRequest.of(output, reporter, stop, interrupted, is_resumed=True)
    rendezvous = request.rendezvous
    if request.uri is not None:
        _bring(str(reference), request.uri, by_ranks=rendezvous is not None)

    def find() -> Run:
        return runs.resolve(str(reference), request.output)

    def prepare() -> tuple[Workload, Plan]:
        run = find()
        resolved = workload_of(run, workload)
        recorded_as = str(run.record.configuration["workload"])
        refuse_going_on(
            run.path / "run.json",
            is_named=workload is not None,
            again=quoted("tarmac", "train", recorded_as, "--resume", run.path),
        )
        if run.record.status == "completed":
            raise RequestError(
                f"run {run.name} is completed, there is nothing to resume",
                hint=instead_of_resuming(run),
            )
        downloading = request.reporter.downloading
        plan = plan_of(run, resolved, downloading, rendezvous, devices=devices)
        check_progress(run, plan.checkpoint_every)
        return resolved, plan

    return work(request, prepare, lambda _found, _plan: find())


@denormals_flushed()
@threads_within_limits()
def extend(
    reference: str | Path,
    *,
    epochs: int,
    output: str | Path | None = None,
    name: str | None = None,
    workload: str | Workload | None = None,
    reporter: Reporter | None = None,
    stop: EpochHook | None = None,
    interrupted: Callable[[], bool] | None = None,
) -> Run:
    """Train a run for more epochs, as a new run from its newest checkpoint.

    Weights, optimizer, random draws and the order of samples continue as if ``epochs`` had been
    requested from the beginning. A schedule is a function of the share of all epochs done, and
    ``epochs`` makes that share smaller. So the learning rate jumps unless the schedule is constant.

    Args:
        reference: The run: its directory, its name, a prefix of the name, or ``"latest"``. The run
            stays unchanged.
        epochs: Epochs of the whole training, including those already done.
        output: Directory in which the new run is created, and in which ``reference`` is looked up
            unless it is a path.
        name: Name of the new run's directory; by default made of workload and time.
        workload: Workload of the run, which must match the run's record. Required if `train` got a
            `Workload` value.
        reporter: Receiver of progress reports; by default none.
        stop: Called after every added epoch, as for `train`.
        interrupted: Called after every step; if true, save the state and stop, as for `train`.

    Returns:
        The new run, whose configuration names the old one as ``from_checkpoint``.

    Raises:
        RequestError: There is no such run, it has no checkpoint, it has already done that many
            epochs, or it used another number of devices.
        TarmacError: The training failed, or the checkpoint is damaged.
    """
    request = TrainRequest.of(output, reporter, stop, interrupted)
    rendezvous, directory = request.rendezvous, request.output

    def find() -> Run:
        return runs.resolve(str(reference), directory)

    def prepare() -> tuple[Workload, Plan]:
        source = find()
        resolved = workload_of(source, workload)
        check_extension(source, epochs)
        downloading = request.reporter.downloading
        return resolved, plan_of(source, resolved, downloading, rendezvous, epochs=epochs)

    def make_run(resolved: Workload, plan: Plan) -> Run:
        launch = request.launch
        begun = find_begun(launch, directory) if rendezvous is None else None
        return begun or create_run(
            plan, resolved, plan.reference, directory, launch=launch, name=name, source=find()
        )

    return work(request, prepare, make_run)


def instead_of_resuming(run: Run) -> str:
    """Return a command for the user who tries to resume a completed run."""
    # A relative path of one component has no grandparent until it is absolute.
    study = run.path.absolute().parents[1]
    if not (study / "study.json").is_file():
        return f"See it: tarmac runs show {quoted(run.path)}"
    more = f"tarmac train --from-checkpoint {quoted(run.path)} --epochs"
    return (
        f"It is the winner of a search. Resume the search: tarmac search --resume "
        f"{quoted(study)} --trials N\n"
        f"More epochs of the winner: {more} N"
    )


def _bring(reference: str, uri: str, *, by_ranks: bool) -> None:
    """Download a run from a URI if the reference is a name; a path is local."""
    output = runs.default_output()
    if "/" in reference or not reference:
        return
    with contextlib.ExitStack() as held:
        if by_ranks:
            with storage_errors(output):
                output.mkdir(parents=True, exist_ok=True)
                held.enter_context(taking_turns(output / f".bring-{os.geteuid()}"))
        fetch_run(f"{uri.rstrip('/')}/{reference}", output / reference)


def _refuse_stored(uri: str, name: str) -> None:
    """Refuse to overwrite the stored copy of another run with the same name."""
    if read_object(f"{uri.rstrip('/')}/{name}/{RECORD}", os.environ) is not None:
        raise RequestError(
            f"there is a run {name} in {uri} already",
            hint=f"Resume it: tarmac train --resume {quoted(name)} --output {quoted(uri)}\n"
            "Or choose another name.",
        )


def _options(keywords: Mapping[str, Any]) -> Options:
    """Convert keyword arguments to options."""
    options = dict(keywords)
    if "device" in options:
        if "devices" in options:
            raise TypeError("train() got both 'device' and 'devices', which mean the same")
        options["devices"] = options.pop("device")
    check_types(options)
    return Options(**options)


def _with_options(function: Callable[..., Run]) -> inspect.Signature:
    """Return a signature that lists each option by its name, for help and completion."""
    own = inspect.signature(function)
    *others, _ = own.parameters.values()
    options = [
        parameter.replace(kind=parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(Options).parameters.values()
    ]
    return own.replace(parameters=[*others, *options])


train.__signature__ = _with_options(train)  # type: ignore[attr-defined]  # inspect reads it


def _refuse_recursion(reference: str) -> None:
    """Refuse to train in a worker that is still importing the workload's file."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == WORKER:
        raise RequestError(
            f"{reference}: its file calls tarmac.training while a worker imports it",
            hint='Put the call under: if __name__ == "__main__":',
        )
