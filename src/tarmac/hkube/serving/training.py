"""A task as a training: started, resumed or already complete, with its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tarmac import data, runs
from tarmac.errors import Interrupted, RequestError
from tarmac.hkube.serving.devices import refuse_fewer_gpus
from tarmac.hkube.serving.metrics import TaskEvents
from tarmac.hkube.serving.request import OPTIONS, Defaults, Request, read_request
from tarmac.runs import Run, name_words
from tarmac.training import (
    Options,
    Plan,
    Reporter,
    Score,
    apply_settings,
    fetch_run,
    make_plan,
    options_of,
    resume,
    train,
    uploaded,
)
from tarmac.workloads import Workload

# Options that must be equal to resume a training. Other options depend on the machine.
_SAME = (
    "epochs",
    "batch_size",
    "learning_rate",
    "train_size",
    "validation_size",
    "validation_split",
    "patience",
    "seed",
    "deterministic",
)

_RECORD = "run.json"
_WEIGHTS = "model.safetensors"

# Progress for human readers needs no shorter interval.
_TELL_EVERY_S = 1.0


class ServedWorkload:
    """A workload whose trainings are tasks.

    Args:
        workload: Workload that each task trains.
        reference: Argument of `tarmac.train` for the workload: a name or the workload itself.
        defaults: Values for what the input does not set.
        environment: Environment variables of the process, usually ``os.environ``.
        reporting: Function that opens a reporter for a training.
        say: Function that writes a line to the log.
        begin_with: Options of new trainings that neither input nor ``defaults`` set. A resumed
            training keeps its own options. Default: none.
    """

    def __init__(
        self,
        workload: Workload,
        reference: Workload | str,
        defaults: Defaults,
        *,
        environment: Mapping[str, str],
        reporting: Callable[[], AbstractContextManager[Reporter]],
        say: Callable[[str], None],
        begin_with: Mapping[str, Any] | None = None,
    ) -> None:
        self._begin_with = begin_with or {}
        self._workload = workload
        self._reference = reference
        self._defaults = defaults
        self._environment = environment
        self._reporting = reporting
        self._say = say
        self._load = _KeptDataset()

    def read(self, data: Any) -> Request:
        """Read the request of a task.

        Raises:
            RequestError: A value is invalid, or the workload does not have a setting.
        """
        request = read_request(data, self._defaults)
        try:
            apply_settings(self._workload, request.settings)
        except RequestError as error:
            if error.hint is None:
                raise
            beside = f"Beside settings: {', '.join((*OPTIONS, 'output'))}"
            raise RequestError(error.message, hint=f"{error.hint}\n{beside}") from None
        return request

    def run(
        self,
        request: Request,
        tell: Callable[[float, str], None],
        is_stopped: Callable[[], bool],
    ) -> Mapping[str, Any]:
        """Train the workload for a task.

        Args:
            request: Request that `read` returned for the task.
            tell: Function that gets the fraction of the work done, 0 to 1, and a line about it.
                Called in this thread.
            is_stopped: Function that returns whether to save the state and stop. Called after every
                step.

        Returns:
            ``loss`` and ``acc`` on the test set, and the location of the weights as ``output``.
            ``acc`` is None for a workload without accuracy. A metric other than accuracy or loss
            by which the workload is judged has its own name.

        Raises:
            Interrupted: The training was stopped; the next call with the same task ID resumes it.
            TarmacError: The request cannot be met, or the training failed.
        """
        refuse_fewer_gpus(str(request.options.get("devices", "auto")), self._environment)
        metrics = self._environment.get("ALGO_METRICS_DIR")
        events = TaskEvents(Path(metrics) if metrics else None, self._say)
        try:
            with self._reporting() as reporter:
                run = self._train(request, _Watch(reporter, tell, events), is_stopped)
            if run.record.status == "interrupted":
                raise Interrupted("stopped; the state is saved", hint=f"It is in {run.path}")
            scores = _scores(run)
            last = int(run.history[-1]["epoch"])
            known = {name: value for name, value in scores.items() if value is not None}
            events.write({"epoch": last} | {f"test_{name}": known[name] for name in known})
        finally:
            events.close()
        return {**scores, "output": f"{request.place}/{_WEIGHTS}"}

    def _train(self, request: Request, watch: _Watch, is_stopped: Callable[[], bool]) -> Run:
        """Start or resume a task's training, until it ends or is stopped."""
        above = runs.default_output() if request.is_remote else Path(request.output)
        path = above / request.task_id
        if request.is_remote and fetch_run(request.place, path):
            self._say(f"{request.task_id} was started before, and is copied from {request.place}")
        if not (path / _RECORD).exists():
            return train(
                self._reference,
                output=request.output,
                name=request.task_id,
                reporter=watch,
                interrupted=is_stopped,
                load=self._load,
                settings=request.settings,
                **{**self._begin_with, **request.options},
            )
        run = Run.open(path)
        self._refuse_other(run, request)
        if run.record.status == "completed":
            self._refuse_elsewhere(run, request)
            self._say(f"{request.task_id} is already completed")
            with uploaded() as begin:
                begin(run)
            return run
        has_any = any(run.checkpoints.glob("epoch-*"))
        how = (
            "resumes from its newest checkpoint"
            if has_any
            else "has no checkpoint, and starts over"
        )
        self._say(f"{request.task_id} {how}")
        return resume(
            path,
            output=request.output if request.is_remote else None,
            workload=self._reference,
            reporter=watch,
            interrupted=is_stopped,
        )

    def _refuse_elsewhere(self, run: Run, request: Request) -> None:
        """Refuse a completed training that was uploaded to another store."""
        begun = run.record.uploaded_to or str(run.path.parent)
        if request.is_remote and begun.rstrip("/") != request.output.rstrip("/"):
            raise _begun_with(str(run.path), "output", begun, request.output)

    def _refuse_other(self, run: Run, request: Request) -> None:
        """Refuse an existing training whose options differ from the request."""
        begun = options_of(run)
        options = dict(request.options)
        # Records before schema 6 lack this option: they trained on the first samples.
        if run.record.configuration["validation_split"] is None:
            options = {"validation_split": "last"} | options
        # Options that the request does not set stay as the training was started.
        unasked = self._begin_with.keys() - request.options.keys()
        options |= {name: begun[name] for name in unasked if name in begun}
        plan = make_plan(
            self._workload,
            self._workload.name,
            Options(**options, settings=request.settings),
            load=self._load,
            goes_on=True,
        ).to_record()
        same = [*_SAME, *(["precision"] if options.get("precision", "auto") != "auto" else [])]
        # Records of versions before 0.2 lack this option, and are resumed as they were started.
        same += ["monitor"] if begun["monitor"] is not None else []
        before = _told_apart(run.record.workload, begun, same)
        now = _told_apart(self._workload.name, plan, same)
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                raise _begun_with(request.place, name, before.get(name), now.get(name))


def _scores(run: Run) -> dict[str, float | None]:
    """Return a finished training's test scores, under the names that HKube's users know."""
    judged = run.record.judged_by
    scores: dict[str, float | None] = {
        "acc": run.metrics.get("test_accuracy"),
        "loss": run.metrics["test_loss"],
    }
    if judged.metric not in ("accuracy", "loss"):
        scores[judged.metric] = run.metrics[judged.of("test")]
    return scores


def _begun_with(place: str, name: str, before: Any, now: Any) -> RequestError:
    return RequestError(
        f"{place} was started with {name} {before}, not {now}",
        hint="Name another output, or start the task under another name.",
    )


def _told_apart(
    workload: str, configuration: Mapping[str, Any], names: Sequence[str]
) -> Mapping[str, Any]:
    """Return the values that distinguish trainings, by their names in messages."""
    settings = {f"settings.{key}": value for key, value in configuration["settings"].items()}
    return {"workload": workload, **{name: configuration.get(name) for name in names}, **settings}


class _Watch:
    """A reporter that passes a training's events on as progress and TensorBoard events too."""

    def __init__(
        self, reporter: Reporter, tell: Callable[[float, str], None], events: TaskEvents
    ) -> None:
        self._reporter = reporter
        self._tell = tell
        self._events = events
        self._epochs = self._steps = 1
        self._next_tell = 0.0
        self._shown: Iterable[str] = ("loss",)
        self.downloading = reporter.downloading
        self.restarting = reporter.restarting

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        self._epochs, self._steps = plan.workload.recipe.epochs, plan.num_steps
        self._shown = dict.fromkeys(("loss", run.record.judged_by.metric))
        self._events.begin(run)
        self._reporter.started(plan, run, num_parameters)

    def stepped(self, epoch: int, step: int, score: Callable[[], Score]) -> None:
        self._reporter.stepped(epoch, step, score)
        now = time.monotonic()
        if now >= self._next_tell:
            self._next_tell = now + _TELL_EVERY_S
            done = (epoch - 1 + step / self._steps) / self._epochs
            self._tell(done, f"epoch {epoch} of {self._epochs}")

    def epoch_done(self, row: Mapping[str, float]) -> None:
        self._events.write(row)
        self._reporter.epoch_done(row)
        epoch = int(row["epoch"])
        shown = ", ".join(f"{name_words(name)} {row[name]:.4f}" for name in self._shown)
        self._tell(epoch / self._epochs, f"epoch {epoch} of {self._epochs}: {shown}")


class _KeptDataset:
    """A dataset loader that caches the last dataset for the next tasks."""

    def __init__(self) -> None:
        self._kept: dict[str, data.Dataset] = {}

    def __call__(self, name: str, *, progress: data.Progress | None = None) -> data.Dataset:
        if name not in self._kept:
            self._kept = {name: data.load(name, progress=progress)}
        return self._kept[name]
