"""The record of a run: its origin, its configuration, and its result."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from tarmac import runs
from tarmac.data import Columns, Progress, SampleShape, columns_of
from tarmac.distribution import SCRIPTS, installed_version
from tarmac.errors import RequestError, TarmacError, quoted, reason_of
from tarmac.files import damaged_record
from tarmac.machine import name_devices
from tarmac.masking import remember_environment, without_known
from tarmac.runs import Parallel, Replica, Run
from tarmac.training.engine.strategies import find_strategy
from tarmac.training.initial import INITIAL
from tarmac.training.plan import Plan
from tarmac.training.planning.devices import devices_again
from tarmac.training.planning.make import make_plan
from tarmac.training.planning.options import Options
from tarmac.training.processes.rendezvous import Rendezvous
from tarmac.training.session.best import find_best
from tarmac.training.session.checkpoint import portable, set_damaged_aside
from tarmac.training.session.origin import begin_from
from tarmac.training.session.sampling import Sampler
from tarmac.training.session.tracking import Tracking
from tarmac.training.session.utilization import model_flops_utilization
from tarmac.training.tensor_files import write_tensors
from tarmac.workloads import Workload, judged_by

_PACKAGES = ("torch", "numpy", "safetensors")

# The record has the batch size and rate of all devices, already scaled, and the initial weights are
# in the run's directory.
_UNRECORDED = ("batch_size_per_device", "scale_lr", "init_from", "init_partial")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one session of a training.

    Attributes:
        metrics: Final metrics; None if a signal stopped the session before.
        stopped_early: Reason why the training ended before its last epoch; None if it did not.
        replicas: Speed and waiting time of each replica.
    """

    metrics: Mapping[str, float] | None = None
    stopped_early: str | None = None
    replicas: tuple[Replica, ...] = ()


def create_run(
    plan: Plan,
    workload: Workload,
    reference: str,
    output: str | Path | None,
    *,
    launch: str = "",
    name: str | None = None,
    source: Run | None = None,
) -> Run:
    """Create the run's directory for a plan.

    Args:
        plan: Training plan that the run will carry out.
        workload: Workload before options changed it.
        reference: Reference by which `find_workload` finds the workload.
        output: Directory in which runs are created; by default `runs.default_output`.
        launch: Name of the launch that trains this run; empty for none.
        name: Name of the run's directory; by default made of workload and time.
        source: Run whose newest checkpoint the new run continues; None for a new training.

    Raises:
        RequestError: The directory cannot be created, or a run of that name exists.
    """
    run = Run.create(
        Path(output) if output is not None else runs.default_output(),
        workload=workload.name,
        command=_command(),
        configuration=plan.to_record()
        | {"from_checkpoint": None if source is None else str(source.path.resolve())},
        dataset=_describe(plan),
        device=plan.devices[0].to_record(),
        parallel=_parallel(plan),
        launch=launch,
        name=name,
        versions=_versions(),
        seed=plan.seed,
        git=runs.git_state(_source_directory(reference)),
        expectation=expectation_of(workload, plan),
        judged_by=judged_by(plan.workload),
    )
    runs.write_layers(run.path, plan.layers)
    if plan.initial is not None:
        weights = {name: portable(value) for name, value in plan.initial.weights.items()}
        write_tensors(run.path / INITIAL, weights)
    if source is not None:
        begin_from(run, source)
    return run


def find_begun(launch: str, output: str | Path | None) -> Run | None:
    """Find the run of a launch whose processes have been started before.

    Args:
        launch: Name of the launch; an empty name matches no run.
        output: Directory of the run; by default `runs.default_output`.
    """
    if not launch:
        return None
    candidates, _ = runs.list_runs(Path(output) if output is not None else None)
    return next((run for run in candidates if run.record.launch == launch), None)


def plan_of(
    run: Run,
    workload: Workload,
    progress: Progress | None = None,
    rendezvous: Rendezvous | None = None,
    *,
    epochs: int | None = None,
    devices: str | None = None,
) -> Plan:
    """Make the plan of a run again, from its record.

    Args:
        run: Run to plan again, from its record.
        workload: Workload that the record names.
        progress: Called while data are downloaded.
        rendezvous: Rank and world size of this process; None for a single process.
        epochs: Epochs instead of the run's own, over which its schedule is then stretched.
        devices: Devices instead of the run's own, if its strategy can resume on any number.

    Raises:
        RequestError: The data have changed since, or the number of devices differs.
        TarmacError: The record is damaged: it lacks an option.
    """
    if rendezvous is not None:
        _check_world_size(run, rendezvous.world_size)
    values = options_of(run)
    if epochs is not None:
        # A run that continues a trial is a whole training.
        values |= {"epochs": epochs, "steps": None}
    # Records of schema 1 have only one device.
    recorded = run.record.configuration
    device = values["devices"] or recorded["device"]
    values["devices"] = devices or devices_again(device, rendezvous)
    # If the kernels can no longer run, the training continues without them. A run that began
    # without them continues without them, as they draw dropout differently.
    values["fused"] = "auto" if values["fused"] == "on" else "off"
    # A run keeps its number of threads, as the order of sums depends on it. Earlier versions did
    # not record it.
    values["threads"] = values["threads"] or 0
    options = Options(**values)
    plan = make_plan(
        workload, recorded["workload"], options, progress, rendezvous=rendezvous, goes_on=True
    )
    if values["monitor"] is None and plan.workload.objective.judged_by == "accuracy":
        plan = dataclasses.replace(plan, patience_metric="loss")
    fingerprint = run.record.dataset["fingerprint"]
    if plan.dataset.fingerprint != fingerprint:
        raise RequestError(
            f"{plan.dataset.name} has changed since run {run.name} began "
            f"({plan.dataset.fingerprint}, was {fingerprint})"
        )
    _check_world_size(run, plan.world_size)
    return plan


def options_of(run: Run) -> dict[str, Any]:
    """Return all options of a run's training, from its record.

    Raises:
        TarmacError: The record is damaged: it lacks an option.
    """
    configuration = run.record.configuration
    names = [field.name for field in dataclasses.fields(Options) if field.name not in _UNRECORDED]
    for name in names:
        if name not in configuration:
            raise damaged_record(run.path / "run.json", f"it does not say {name}")
    options = {name: configuration[name] for name in names}
    # Records before schema 6 lack the split: the last samples were held out.
    return options | {"validation_split": options["validation_split"] or "last"}


def _check_world_size(run: Run, num_processes: int) -> None:
    world_size = run.record.parallel.world_size if run.record.parallel else 1
    if run.record.parallel and find_strategy(run.record.parallel.strategy).shards_model:
        return
    if num_processes != world_size:
        raise RequestError(
            f"run {run.name} was started by {world_size} processes, "
            f"and cannot resume with {num_processes}",
            hint=f"Start as many: torchrun --nproc-per-node {world_size} -m tarmac train "
            f"--resume {quoted(run.path)}",
        )


@contextlib.contextmanager
def recorded(
    run: Run,
    plan: Plan,
    workload: Workload,
    *,
    sampler: Sampler,
    tracking: Tracking,
    uri: str | None = None,
    launch: str = "",
) -> Iterator[Callable[[Outcome], None]]:
    """Hold a run during its training, and record the result.

    Args:
        run: Run that is trained, whose record changes.
        plan: Training plan of the run.
        workload: Workload before options changed it.
        sampler: Sampler of this host while the run is held.
        tracking: Trackers, which are opened and receive the result.
        uri: URI below which the copy goes from now on; None for the recorded one.
        launch: Name of the launch of several processes; empty for none. A run that an earlier
            attempt of the launch has begun resumes from its newest undamaged checkpoint.

    Yields:
        A function that records an outcome. An error that leaves the context is recorded too.

    Raises:
        RequestError: Another process trains the run.
    """
    started, before = time.perf_counter(), run.record.elapsed_s

    def end(status: str, **changes: Any) -> None:
        elapsed_s = before + time.perf_counter() - started
        sampler.stop()
        changes |= _measured(run, plan)
        run.update(status=status, ended_at=runs.now(), elapsed_s=elapsed_s, **changes)
        sums = {name: changes[name] for name in ("energy_joules", "mfu")}
        known = {name: value for name, value in sums.items() if value is not None}
        tracking.end(status, {**run.metrics, **known})

    def conclude(outcome: Outcome) -> None:
        parallel = _parallel(plan, outcome.replicas).model_dump()
        metrics = outcome.metrics
        if metrics is None:
            end("interrupted", parallel=parallel)
        else:
            expectation = expectation_of(workload, plan, metrics)
            end(
                "completed",
                parallel=parallel,
                metrics=dict(metrics),
                expectation=expectation,
                stopped_early=outcome.stopped_early,
            )

    with run.working(), sampler:
        if launch and run.record.launch == launch:
            set_damaged_aside(run.checkpoints)
        now_on = name_devices(plan.devices)
        if run.record.configuration.get("devices") != now_on and plan.process_per_device:
            # Workers make their plans from the record.
            configuration = {**run.record.configuration, "devices": now_on}
            run.update(configuration=configuration, parallel=_parallel(plan).model_dump())
        if uri is not None:
            run.update(uploaded_to=uri)
        try:
            tracking.open(run, plan)
            yield conclude
        except BaseException as error:
            # The disk may be full, but the user must see the error that stopped the training.
            with contextlib.suppress(TarmacError):
                remember_environment(os.environ)
                end("failed", error=without_known(reason_of(error)))
            raise


def _measured(run: Run, plan: Plan) -> dict[str, Any]:
    """Return the totals of the samples and the epochs, and the best checkpoint."""
    hosts = runs.read_all_samples(run.path)
    everywhere = runs.Samples(gpus=tuple(gpu for host in hosts for gpu in host.gpus))
    used: float | None = None
    with contextlib.suppress(TarmacError):
        used = model_flops_utilization(plan, run.history)
    return {
        "energy_joules": everywhere.energy_joules,
        "throttled_s": everywhere.throttled_s,
        "mfu": used,
        "best": find_best(run),
    }


def _parallel(plan: Plan, replicas: tuple[Replica, ...] = ()) -> Parallel:
    backend = "none"
    if plan.process_per_device:
        backend = "nccl" if plan.devices[0].type == "cuda" else "gloo"
    return Parallel(
        strategy=plan.strategy, world_size=plan.world_size, backend=backend, replicas=replicas
    )


def expectation_of(
    workload: Workload, plan: Plan, metrics: Mapping[str, float] | None = None
) -> dict[str, Any] | None:
    """Return the workload's expectation, judged by the metrics if there are any.

    Returns None for other data and for trials, which have no expectation.
    """
    expected = workload.expectation
    if expected is None or plan.workload.dataset != workload.dataset:
        return None
    if plan.steps is not None:
        return None
    changed = (
        dataclasses.replace(plan.workload.recipe, monitor=workload.recipe.monitor)
        != workload.recipe
        or bool(plan.model_arguments)
        or plan.train_size != len(plan.dataset.train)
    )
    metric = expected.metric_of(judged_by(workload))
    value = (metrics or {}).get(metric)
    verdict = None if value is None else expected.judge(value, metric)
    return {
        "metric": metric,
        "at_least": expected.at_least,
        "at_most": expected.at_most,
        "source": expected.source,
        "met": None if verdict is None else verdict.met,
        "text": (str(expected) if verdict is None else verdict.text)
        + (" (the recipe was changed)" if changed else ""),
    }


def _describe(plan: Plan) -> dict[str, Any]:
    dataset = plan.dataset
    return {
        "name": dataset.name,
        "num_train": len(dataset.train),
        "num_test": len(dataset.test),
        "num_validation": 0 if dataset.validation is None else len(dataset.validation),
        "sample_shape": _shape_to_record(dataset.sample_shape),
        "fingerprint": dataset.fingerprint,
        "inputs": input_record(dataset.train.inputs),
        "num_classes": dataset.num_classes,
        "note": dataset.note,
        "features": [*dataset.features],
        "classes": [*dataset.classes],
    }


def _shape_to_record(shape: SampleShape) -> list[int] | dict[str, list[int]]:
    if isinstance(shape, dict):
        return {name: list(lengths) for name, lengths in shape.items()}
    return list(shape)


def input_record(inputs: Columns) -> list[dict[str, Any]]:
    """Return the parts of a sample as JSON values: the name, shape and type of each part.

    Args:
        inputs: Inputs of a split; a single array has the name None.
    """
    return [
        {"name": name or None, "shape": list(column.shape[1:]), "dtype": str(column.dtype)}
        for name, column in columns_of(inputs).items()
    ]


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "tarmac": installed_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    if torch.version.cuda is not None:
        versions["cuda"] = torch.version.cuda
        versions["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    return versions


def _command() -> list[str]:
    """Return the command line of Tarmac's own program; empty for a call from Python."""
    return sys.argv if Path(sys.argv[0]).name in SCRIPTS else []


def _source_directory(reference: str) -> Path:
    path, separator, _ = reference.rpartition(":")
    return Path(path).resolve().parent if separator else Path.cwd()
