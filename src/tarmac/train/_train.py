"""Trains a workload into a run directory: plan, train, checkpoint, judge."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch
from safetensors.torch import save

from tarmac import runs
from tarmac.errors import RequestError, TarmacError
from tarmac.runs import Run
from tarmac.storage import write_bytes
from tarmac.train._checkpoint import (
    check_fits,
    newest_checkpoint,
    portable,
    read_checkpoint,
    write_checkpoint,
)
from tarmac.train._engine import Engine, Score, check_finite
from tarmac.train._environment import StopRequest, denormals_flushed, training_environment
from tarmac.train._plan import Options, Plan, make_plan
from tarmac.train._reporter import Reporter, Silent
from tarmac.workloads import Workload, find_workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["resume", "train"]

_PACKAGES = ("tarmac", "torch", "numpy", "safetensors", "scikit-learn")


@denormals_flushed()
def train(
    workload: str | Workload,
    *,
    output: str | Path | None = None,
    reporter: Reporter | None = None,
    **options: Any,
) -> Run:
    """Train a workload and return its run.

    Args:
        workload: A name (``"mnist-mlp"``), ``"path/to/file.py:attribute"``, or a `Workload`.
        output: The directory in which the run's own is made; by default `runs.default_output`.
        reporter: Who is told how it goes; nobody by default.
        **options: The fields of `Options`: ``epochs``, ``batch_size``, ``learning_rate``,
            ``train_size``, ``validation_size``, ``seed``, ``device``, ``precision``, ``compile``,
            ``deterministic``, ``checkpoint_every``, ``settings``.

    Returns:
        The finished run, e.g. ``run.metrics["test_accuracy"]``. One that a signal stopped has
        ``run.record.status == "interrupted"``.

    Raises:
        RequestError: The request cannot be met; nothing was started.
        TarmacError: The training failed; what it had done so far is in its run.
    """
    unknown = options.keys() - {field.name for field in dataclasses.fields(Options)}
    if unknown:
        raise TypeError(f"train() got unexpected options: {', '.join(sorted(unknown))}")
    reporter = reporter or Silent()
    reference = workload if isinstance(workload, str) else workload.name
    found = find_workload(workload) if isinstance(workload, str) else workload
    plan = make_plan(found, _absolute(reference), Options(**options), reporter.downloading)
    run = Run.create(
        Path(output) if output is not None else runs.default_output(),
        workload=found.name,
        command=_command(),
        configuration=plan.to_record(),
        dataset=_describe(plan),
        device=plan.device.to_record(),
        versions=_versions(),
        seed=plan.seed,
        git=runs.git_state(_source_directory(reference)),
        expectation=_expectation(found, plan),
    )
    return _work(plan, run, found, reporter)


@denormals_flushed()
def resume(
    reference: str | Path,
    *,
    output: str | Path | None = None,
    workload: str | Workload | None = None,
    reporter: Reporter | None = None,
) -> Run:
    """Go on with a run that was stopped, from its newest checkpoint.

    Args:
        reference: The run: its directory, its name, a prefix of it, or ``"latest"``.
        output: Where runs lie, if ``reference`` is not a path.
        workload: Must be the run's own if given. One passed to `train` as a value has to be.
        reporter: Who is told how it goes; nobody by default.

    Returns:
        The run. On a CPU its weights are the same bits as without the stop.

    Raises:
        RequestError: There is no such run, it is done, or it is of another workload.
        TarmacError: The training failed, or its checkpoint is damaged.
    """
    reporter = reporter or Silent()
    run = runs.resolve(str(reference), Path(output) if output is not None else None)
    asked = dict(run.record.configuration)
    recorded = str(asked.pop("workload"))
    if isinstance(workload, Workload):
        found, name = workload, workload.name
    else:
        name = recorded if workload is None else _absolute(workload)
        found = find_workload(name)
    if name != recorded:
        raise RequestError(f"run {run.name} is of {recorded}, not of {name}")
    if run.record.status == "completed":
        raise RequestError(
            f"run {run.name} is completed, there is nothing to resume",
            hint=f"See it: tarmac runs show {run.name}",
        )
    known = {field.name for field in dataclasses.fields(Options)}
    options = Options(**{key: value for key, value in asked.items() if key in known})
    plan = make_plan(found, recorded, options, reporter.downloading)
    fingerprint = run.record.dataset["fingerprint"]
    if plan.dataset.fingerprint != fingerprint:
        raise RequestError(
            f"{plan.dataset.name} has changed since run {run.name} began "
            f"({plan.dataset.fingerprint}, was {fingerprint})"
        )
    return _work(plan, run, found, reporter)


def _work(plan: Plan, run: Run, workload: Workload, reporter: Reporter) -> Run:
    """Train into a run's directory and record how it ended."""
    started, before = time.perf_counter(), run.record.elapsed_s

    def end(status: str, **changes: Any) -> None:
        elapsed_s = before + time.perf_counter() - started
        run.update(status=status, ended_at=runs.now(), elapsed_s=elapsed_s, **changes)

    with run.working(), StopRequest() as stop, training_environment(plan), _out_of_memory(plan):
        try:
            metrics = _train_epochs(plan, run, reporter, stop)
        except BaseException as error:
            # A disk may be full now: what stopped the training is what the user must hear of.
            with contextlib.suppress(TarmacError):
                end("failed", error=str(error) or type(error).__name__)
            raise
        if metrics is None:
            end("interrupted")
        else:
            end("completed", metrics=metrics, expectation=_expectation(workload, plan, metrics))
    return run


def _train_epochs(
    plan: Plan, run: Run, reporter: Reporter, stop: StopRequest
) -> dict[str, float] | None:
    """Train from the newest checkpoint to the end; None where a signal stopped it before."""
    engine = Engine(plan)
    first_epoch, first_step = _restore(engine, plan, run)
    epochs, num_steps = plan.workload.recipe.epochs, plan.num_steps
    run.truncate_metrics(lambda row: int(row["epoch"]) <= first_epoch)
    reporter.started(plan, run, engine.num_parameters)
    row: dict[str, float] = {}
    with run.events(first_step=first_epoch + 1) as events:
        for epoch in range(first_epoch, epochs):

            def after_step(step: int, epoch: int = epoch) -> bool:
                reporter.stepped(epoch + 1, step, lambda: engine.score_so_far(step))
                return bool(stop)

            done, seconds = engine.train_epoch(epoch, first_step, after_step)
            first_step = 0
            if done < num_steps:
                write_checkpoint(run.checkpoints, engine.save(epoch, done))
                return None
            score = engine.score_so_far(num_steps)
            check_finite(score, epoch + 1)
            row = _row(engine, plan, epoch, score, seconds)
            if (epoch + 1) % plan.checkpoint_every == 0 or epoch + 1 == epochs or stop:
                write_checkpoint(run.checkpoints, engine.save(epoch + 1, 0))
            run.append_metrics(row)
            for key in row.keys() - {"epoch"}:
                events.scalar(key, row[key], epoch + 1)
            reporter.epoch_done(row)
            if stop and epoch + 1 < epochs:
                return None
        return _finish(engine, run, events)


def _finish(engine: Engine, run: Run, events: runs.EventWriter) -> dict[str, float]:
    """Score the test set, once, and write the weights."""
    test = engine.evaluate_test()
    weights = {name: portable(value) for name, value in engine.weights().items()}
    write_bytes(run.model, save(weights))
    last = run.history[-1]
    metrics = {
        "test_accuracy": test.accuracy,
        "test_loss": test.loss,
        "train_accuracy": last["accuracy"],
        "train_loss": last["loss"],
    }
    metrics |= {key: last[key] for key in ("val_accuracy", "val_loss") if key in last}
    metrics["train_seconds"] = sum(row["seconds"] for row in run.history)
    for key in ("test_accuracy", "test_loss"):
        events.scalar(key, metrics[key], int(last["epoch"]))
    return metrics


def _restore(engine: Engine, plan: Plan, run: Run) -> tuple[int, int]:
    """Bring the engine to the run's newest checkpoint; return its epoch and step."""
    path = newest_checkpoint(run.checkpoints)
    if path is None:
        return 0, 0
    checkpoint = read_checkpoint(path, plan.reference)
    check_fits(checkpoint, engine.weights(), path)
    engine.restore(checkpoint)
    return checkpoint.epoch, checkpoint.step


def _row(engine: Engine, plan: Plan, epoch: int, score: Score, seconds: float) -> dict[str, float]:
    """Make an epoch's line of ``metrics.jsonl``."""
    recipe = plan.workload.recipe
    row: dict[str, float] = {"epoch": epoch + 1, "loss": score.loss, "accuracy": score.accuracy}
    if plan.validation_size:
        validation = engine.evaluate_validation()
        row |= {"val_loss": validation.loss, "val_accuracy": validation.accuracy}
    last_step = (epoch + (plan.num_steps - 1) / plan.num_steps) / recipe.epochs
    return row | {
        "learning_rate": recipe.optimizer.learning_rate * recipe.schedule.factor(last_step),
        "samples_per_s": plan.train_size / seconds,
        "seconds": seconds,
        "memory_bytes": _memory_bytes(plan),
    }


def _memory_bytes(plan: Plan) -> int:
    """Return the most memory taken so far on a GPU, or what the process holds now on a CPU."""
    if plan.device.type == "cuda":
        return torch.cuda.max_memory_allocated(plan.device.index)
    return int(psutil.Process().memory_info().rss)


def _expectation(
    workload: Workload, plan: Plan, metrics: Mapping[str, float] | None = None
) -> dict[str, Any] | None:
    """Describe the expectation, and judge it once there are metrics; None for other data."""
    expected = workload.expectation
    if expected is None or plan.workload.dataset != workload.dataset:
        return None
    changed = (
        plan.workload.recipe != workload.recipe
        or bool(plan.model_arguments)
        or plan.train_size != len(plan.dataset.train)
    )
    verdict = expected.judge(metrics["test_accuracy"]) if metrics else None
    return {
        "metric": "test_accuracy",
        "at_least": expected.at_least,
        "at_most": expected.at_most,
        "source": expected.source,
        "met": None if verdict is None else verdict.met,
        "text": (str(expected) if verdict is None else verdict.text)
        + (" (the recipe was changed)" if changed else ""),
    }


@contextlib.contextmanager
def _out_of_memory(plan: Plan) -> Iterator[None]:
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        is_cpu = isinstance(error, MemoryError) or "can't allocate memory" in str(error)
        if not (is_cpu or isinstance(error, torch.OutOfMemoryError)):
            raise
        size = plan.workload.recipe.batch_size
        raise TarmacError(
            f"out of memory on {plan.device.torch_name} with batches of {size}",
            hint="Try a smaller --batch-size.",
        ) from error


def _describe(plan: Plan) -> dict[str, Any]:
    dataset = plan.dataset
    return {
        "name": dataset.name,
        "num_train": len(dataset.train),
        "num_test": len(dataset.test),
        "sample_shape": list(dataset.sample_shape),
        "fingerprint": dataset.fingerprint,
    }


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    if torch.version.cuda is not None:
        versions["cuda"] = torch.version.cuda
        versions["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    return versions


def _command() -> list[str]:
    """Return the command line where Tarmac's own is running, and nothing from Python."""
    return sys.argv if Path(sys.argv[0]).name in ("tarmac", "__main__.py") else []


def _absolute(reference: str) -> str:
    """Make a workload's file absolute, so that it is found from any directory later."""
    path, separator, attribute = reference.rpartition(":")
    return f"{Path(path).resolve()}:{attribute}" if separator else reference


def _source_directory(reference: str) -> Path:
    path, separator, _ = reference.rpartition(":")
    return Path(path).resolve().parent if separator else Path.cwd()
