"""The verb: trains a workload into a run directory, in this process or in several."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac import data, runs
from tarmac.errors import RequestError, quoted
from tarmac.files import (
    is_object,
    read_object,
    refuse_foreign_python,
    refuse_going_on,
    storage_errors,
    taking_turns,
)
from tarmac.training.engine.team import Alone
from tarmac.training.planning.make import make_plan
from tarmac.training.planning.options import Options, check_types
from tarmac.training.processes.rendezvous import find_launch, find_rendezvous
from tarmac.training.session.checkpoint import check_progress
from tarmac.training.session.download import fetch_run
from tarmac.training.session.epochs import train_epochs
from tarmac.training.session.modes import denormals_flushed, threads_within_limits
from tarmac.training.session.origin import check_extension, find_weights
from tarmac.training.session.rank import train_as_rank
from tarmac.training.session.record import create_run, find_begun, plan_of, recorded
from tarmac.training.session.reporter import Reporter, Silent
from tarmac.training.session.sampling import Sampler, uuids_of
from tarmac.training.session.stop_request import StopRequest
from tarmac.training.session.tracking import Tracking
from tarmac.training.session.upload import RECORD, uploaded
from tarmac.training.session.workers import WORKER, train_in_workers
from tarmac.workloads import Workload, find_workload, reference_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tarmac.runs import Run
    from tarmac.training.plan import Plan
    from tarmac.training.processes.rendezvous import Rendezvous
    from tarmac.training.session.epochs import EpochHook


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
    **options: Any,
) -> Run:
    """Train a workload and return its run.

    Where torchrun or its like has started several processes, each must call this; the first makes
    the run, and all return it. Where an earlier attempt of the same task has begun it, that run is
    gone on with from its newest checkpoint.

    Args:
        workload: A name (``"mnist-mlp"``), ``"path/to/file.py:attribute"``, or a `Workload`. For
            ``ddp`` it must be one that its workers can import.
        output: The directory in which the run's own is made; by default `runs.default_output`. A
            URI, ``s3://bucket/prefix``, gets a copy of the run, which follows its epochs and is
            whole when this returns.
        name: The name of the run's directory; by default made of workload and time.
        reporter: Who is told how it goes; nobody by default.
        stop: Called after every epoch with its line of ``metrics.jsonl``, in the thread that trains
            and before the epoch's checkpoint. Returns why the training ends there, which the run
            keeps as ``run.record.stopped_early``, or None to go on. A training that it ends is
            finished like any other. Where a launcher has started several processes each must give
            one, and the first's is asked; ``ddp`` in workers of Tarmac's own takes none.
        interrupted: Asked after every step whether to save the state and stop there, as SIGINT and
            SIGTERM ask it; for programs that learn it otherwise, and train outside the main thread.
        load: Loads the workload's dataset where that is named; by default `tarmac.data.load`.
        **options: The fields of `Options`, such as ``epochs``, ``batch_size``, ``devices``;
            ``device`` is another word for ``devices``.

    Returns:
        The finished run, e.g. ``run.metrics["test_accuracy"]``. One that was interrupted has
        ``run.record.status == "interrupted"``.

    Raises:
        RequestError: The request cannot be met; nothing was started.
        TarmacError: The training failed; what it had done so far is in its run.
    """
    if not isinstance(workload, str | Workload):
        raise TypeError(
            f"workload is a {type(workload).__name__}, expected a name such as 'mnist-mlp', "
            "'path/to/file.py:attribute', or a Workload"
        )
    request = _options(options)
    reporter = reporter or Silent()
    reference = workload if isinstance(workload, str) else workload.name
    _refuse_recursion(reference)
    rendezvous = find_rendezvous(os.environ, os.getppid())

    def prepare() -> tuple[Workload, Plan]:
        resolved = find_workload(workload) if isinstance(workload, str) else workload
        where = _absolute(reference)
        plan = make_plan(
            resolved, where, request, reporter.downloading, rendezvous=rendezvous, load=load
        )
        if plan.process_per_device and rendezvous is None and not isinstance(workload, str):
            plan = dataclasses.replace(plan, reference=reference_of(workload))
        return resolved, plan

    directory, uri = _directory_and_uri(output)
    if request.init_from is not None:
        weights = find_weights(request.init_from, directory)
        request = dataclasses.replace(request, init_from=str(weights))

    launch = rendezvous.launch if rendezvous is not None else find_launch(os.environ)

    def make_run(found: Workload, plan: Plan) -> Run:
        begun = find_begun(launch, directory) if rendezvous is None else None
        if begun is None and uri is not None and name is not None:
            _refuse_stored(uri, name)
        return begun or create_run(plan, found, reference, directory, launch=launch, name=name)

    return _work(
        prepare,
        make_run,
        rendezvous,
        output=directory,
        uri=uri,
        reporter=reporter,
        stop=stop,
        interrupted=interrupted,
        launch=launch,
    )


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
    """Go on with a run that was stopped, from its newest checkpoint.

    Args:
        reference: The run: its directory, its name, a prefix of it, or ``"latest"``.
        output: Where runs lie, if ``reference`` is not a path. A URI is where the copy goes from
            now on; the run itself then lies where `runs.default_output` says. A run of that name
            below the URI is brought there first, if it is not there yet or has a newer checkpoint.
        workload: Must be the run's own if given. One passed to `train` as a value has to be.
        devices: Instead of the run's own; another number of them by ``fsdp`` alone.
        reporter: Who is told how it goes; nobody by default.
        stop: As for `train`, of the epochs that are left.
        interrupted: Called after every step; if true, save the state and stop, as for `train`.

    Returns:
        The run. On a CPU its weights are the same bits as without the stop.

    Raises:
        RequestError: There is no such run, it is done, it is of another workload, or of another
            number of devices.
        TarmacError: The training failed, or its checkpoint is damaged.
    """
    reporter = reporter or Silent()
    rendezvous = find_rendezvous(os.environ, os.getppid())
    directory, uri = _directory_and_uri(output)
    if uri is not None:
        _bring(str(reference), uri, by_ranks=rendezvous is not None)

    def find() -> Run:
        return runs.resolve(str(reference), directory)

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
        plan = plan_of(run, resolved, reporter.downloading, rendezvous, devices=devices)
        check_progress(run, plan.checkpoint_every)
        return resolved, plan

    return _work(
        prepare,
        lambda _found, _plan: find(),
        rendezvous,
        output=directory,
        uri=uri,
        reporter=reporter,
        stop=stop,
        interrupted=interrupted,
    )


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
    """Train a run for more epochs than it was asked for, as a new run from its newest checkpoint.

    Weights, optimizer, random draws and the order of samples go on as if ``epochs`` had been asked
    at first. A schedule is a function of the share of all epochs that is done, so from here on it
    is that of ``epochs``: where it is not constant, the rate goes on elsewhere than it had come to.

    Args:
        reference: The run: its directory, its name, a prefix of it, or ``"latest"``. It stays as
            it is.
        epochs: Epochs of the whole training, including those already done.
        output: Where the new run is made, and ``reference`` is looked for if it is no path.
        name: The name of the new run's directory; by default made of workload and time.
        workload: Must be the run's own if given. One passed to `train` as a value has to be.
        reporter: Who is told how it goes; nobody by default.
        stop: As for `train`, of the epochs that are added.
        interrupted: Called after every step; if true, save the state and stop, as for `train`.

    Returns:
        The new run, whose configuration names the old one as ``from_checkpoint``.

    Raises:
        RequestError: There is no such run, it has no checkpoint, it has done as many epochs, or it
            was of another number of devices.
        TarmacError: The training failed, or the checkpoint is damaged.
    """
    reporter = reporter or Silent()
    rendezvous = find_rendezvous(os.environ, os.getppid())
    directory, uri = _directory_and_uri(output)
    launch = rendezvous.launch if rendezvous is not None else find_launch(os.environ)

    def find() -> Run:
        return runs.resolve(str(reference), directory)

    def prepare() -> tuple[Workload, Plan]:
        source = find()
        resolved = workload_of(source, workload)
        check_extension(source, epochs)
        return resolved, plan_of(source, resolved, reporter.downloading, rendezvous, epochs=epochs)

    def make_run(found: Workload, plan: Plan) -> Run:
        begun = find_begun(launch, directory) if rendezvous is None else None
        return begun or create_run(
            plan, found, plan.reference, directory, launch=launch, name=name, source=find()
        )

    return _work(
        prepare,
        make_run,
        rendezvous,
        output=directory,
        uri=uri,
        reporter=reporter,
        stop=stop,
        interrupted=interrupted,
        launch=launch,
    )


def _work(
    prepare: Callable[[], tuple[Workload, Plan]],
    make_run: Callable[[Workload, Plan], Run],
    rendezvous: Rendezvous | None,
    *,
    output: Path | None,
    uri: str | None,
    reporter: Reporter,
    stop: EpochHook | None,
    interrupted: Callable[[], bool] | None,
    launch: str = "",
) -> Run:
    """Train into a run's directory, record how it ended, and upload it where that is asked."""
    if rendezvous is not None:
        with uploaded(uri) as begin:
            return train_as_rank(
                rendezvous,
                prepare,
                make_run,
                output=output,
                uri=uri,
                begun=begin,
                reporter=reporter,
                stop=stop,
                interrupted=interrupted,
            )
    workload, plan = prepare()
    if stop is not None and plan.process_per_device:
        raise RequestError(
            f"stop cannot be asked: the epochs of {plan.strategy} end in workers, "
            "which do not have it",
            hint="Train on one device, by towers, or under torchrun.",
        )
    run = make_run(workload, plan)
    if run.record.status == "completed":
        return run
    sampler = Sampler(run, uuids_of(plan.devices), is_on=plan.sampling)
    tracking = Tracking(reporter, sampler)
    with (
        uploaded(uri) as begin,
        recorded(
            run, plan, workload, sampler=sampler, tracking=tracking, uri=uri, launch=launch
        ) as conclude,
    ):
        begin(run)
        if plan.process_per_device:
            conclude(train_in_workers(plan, run, tracking, sampler, interrupted))
        else:
            with StopRequest(interrupted) as stop_request:
                conclude(train_epochs(plan, run, Alone(), tracking, stop_request, stop=stop))
    return run


def instead_of_resuming(run: Run) -> str:
    """Say what to type where a run that is completed was to be resumed."""
    # A path of one name has no grandparent until it is absolute.
    study = run.path.absolute().parents[1]
    if not (study / "study.json").is_file():
        return f"See it: tarmac runs show {quoted(run.path)}"
    more = f"tarmac train --from-checkpoint {quoted(run.path)} --epochs"
    return (
        f"It is the winner of a search. Go on with that: tarmac search --resume "
        f"{quoted(study)} --trials N\n"
        f"More epochs of the winner: {more} N"
    )


def _directory_and_uri(output: str | Path | None) -> tuple[Path | None, str | None]:
    """Tell a directory from the URI of an object store; both are None for the default."""
    if output is not None and is_object(str(output)):
        return None, str(output)
    return None if output is None else Path(output), None


def _bring(reference: str, uri: str, *, by_ranks: bool) -> None:
    """Download a run that is named as its directory below a URI is; all else is of this machine."""
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
    """Refuse to begin a run over the copy of another one of its name."""
    if read_object(f"{uri.rstrip('/')}/{name}/{RECORD}", os.environ) is not None:
        raise RequestError(
            f"there is a run {name} in {uri} already",
            hint=f"Go on with it: tarmac train --resume {quoted(name)} --output {quoted(uri)}\n"
            "or take another name.",
        )


def workload_of(run: Run, asked: str | Workload | None) -> Workload:
    """Find a run's workload again, which must be the one that is asked for.

    Args:
        run: Run with a record that names the workload.
        asked: None for what the record names, which runs a user's own file, but no other user's.

    Raises:
        RequestError: It is another one, is not there any more, or is the file of another user, or
            a run of theirs names it.
    """
    recorded_as = str(run.record.configuration["workload"])
    if isinstance(asked, Workload):
        workload, names = asked, (asked.name, *_importable(asked))
    else:
        if asked is None:
            line = quoted("tarmac", "train", recorded_as, "--resume", run.path)
            option = quoted("--workload", recorded_as)
            again = f"{line}\nFor eval, predict and export: {option}"
            refuse_foreign_python(recorded_as, run.path / "run.json", again=again)
        names = (recorded_as if asked is None else _absolute(asked),)
        workload = find_workload(names[0])
    if recorded_as not in names:
        raise RequestError(f"run {run.name} is of {recorded_as}, not of {names[0]}")
    return workload


def _options(asked: Mapping[str, Any]) -> Options:
    """Make options of keyword arguments."""
    options = dict(asked)
    if "device" in options:
        if "devices" in options:
            raise TypeError("train() got both 'device' and 'devices', which mean the same")
        options["devices"] = options.pop("device")
    check_types(options)
    return Options(**options)


def _with_options(function: Callable[..., Run]) -> inspect.Signature:
    """Return the signature of a function with each option by its name, for help and completion."""
    own = inspect.signature(function)
    *others, _ = own.parameters.values()
    options = [
        parameter.replace(kind=parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(Options).parameters.values()
    ]
    return own.replace(parameters=[*others, *options])


train.__signature__ = _with_options(train)  # type: ignore[attr-defined]  # inspect reads it


def _refuse_recursion(reference: str) -> None:
    """Refuse to train in a worker that is only loading the file of its workload."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == WORKER:
        raise RequestError(
            f"{reference}: its file calls tarmac.training while a worker imports it",
            hint='Put the call under: if __name__ == "__main__":',
        )


def _importable(workload: Workload) -> tuple[str, ...]:
    """Return the name by which workers would find a workload, where there is one."""
    try:
        return (reference_of(workload),)
    except RequestError:
        return ()


def _absolute(reference: str) -> str:
    """Make a workload's file absolute, so that it is found from any directory later."""
    path, separator, attribute = reference.rpartition(":")
    return f"{Path(path).resolve()}:{attribute}" if separator else reference
