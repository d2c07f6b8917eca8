"""A task as a training: begun, gone on with, or found done, and its result."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac import data, runs
from tarmac.errors import Interrupted, RequestError
from tarmac.hkube.serving.devices import refuse_fewer_gpus
from tarmac.hkube.serving.metrics import TaskEvents
from tarmac.hkube.serving.request import OPTIONS, read_request
from tarmac.runs import Run, name_words
from tarmac.training import (
    Options,
    apply_settings,
    fetch_run,
    make_plan,
    options_of,
    resume,
    train,
    uploaded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tarmac.hkube.serving.request import Defaults, Request
    from tarmac.training import Plan, Reporter, Score
    from tarmac.workloads import Workload

# What a training must have been begun with to be gone on with. The rest is the machine's.
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

# As often as a person looks.
_TELL_EVERY_S = 1.0


class ServedWorkload:
    """A workload whose trainings are tasks.

    Args:
        workload: Workload that each task trains.
        reference: What `tarmac.train` takes for it: a name, or the workload itself.
        defaults: Values for what the input does not set.
        environment: Environment variables of the process, usually ``os.environ``.
        reporting: Opens what is told how a training goes.
        say: Takes a line for the log.
        begin_with: Options of trainings that begin, where neither input nor ``defaults`` say them.
            One that goes on keeps what it was begun with.
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
        """Read what a task asks.

        Raises:
            RequestError: A value that cannot be, or a setting that the workload does not have.
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
        """Train what a task asks.

        Args:
            request: Request that `read` returned for the task.
            tell: Receives the share of the work done, 0 to 1, and a line on it; called in this
                thread.
            is_stopped: Asked after every step whether to save the state and stop.

        Returns:
            ``loss`` and ``acc`` on the test set, and where the weights are as ``output``. Where
            accuracy is not scored ``acc`` is None, and what the workload is judged by is there by
            its own name.

        Raises:
            Interrupted: It was stopped; the next call with the same task's name goes on.
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
        """Bring a task's training to its end, or to where it is stopped."""
        above = runs.default_output() if request.is_remote else Path(request.output)
        path = above / request.task_id
        if request.is_remote and fetch_run(request.place, path):
            self._say(f"{request.task_id} was begun already, and comes from {request.place}")
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
            self._say(f"{request.task_id} is done already")
            with uploaded() as begin:
                begin(run)
            return run
        has_any = any(run.checkpoints.glob("epoch-*"))
        how = (
            "goes on from its newest checkpoint"
            if has_any
            else "has no checkpoint, and begins anew"
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
        """Refuse to take a training for done in a store where nothing of it was put."""
        begun = run.record.uploaded_to or str(run.path.parent)
        if request.is_remote and begun.rstrip("/") != request.output.rstrip("/"):
            raise _begun_with(str(run.path), "output", begun, request.output)

    def _refuse_other(self, run: Run, request: Request) -> None:
        """Refuse to take a training for that of a task that asks for another one."""
        begun = options_of(run)
        options = dict(request.options)
        # Records before schema 6 do not say it: the first samples were trained on.
        if run.record.configuration["validation_split"] is None:
            options = {"validation_split": "last"} | options
        # What nobody has asked for is as it was begun.
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
        # Records of before 0.2 do not say it, and are gone on with as they were begun.
        same += ["monitor"] if begun["monitor"] is not None else []
        before = _told_apart(run.record.workload, begun, same)
        now = _told_apart(self._workload.name, plan, same)
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                raise _begun_with(request.place, name, before.get(name), now.get(name))


def _scores(run: Run) -> dict[str, float | None]:
    """Return a finished training's scores on the test set, by the names that HKube's users know."""
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
        f"{place} was begun with {name} {before}, not {now}",
        hint="Name another output, or start the task under another name.",
    )


def _told_apart(
    workload: str, configuration: Mapping[str, Any], names: Sequence[str]
) -> Mapping[str, Any]:
    """Return what makes one training another, by its name in messages."""
    settings = {f"settings.{key}": value for key, value in configuration["settings"].items()}
    return {"workload": workload, **{name: configuration.get(name) for name in names}, **settings}


class _Watch:
    """Passes on what a training tells: to its reporter, as progress, and into events."""

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
    """Loads datasets, and keeps the last one for the tasks that follow."""

    def __init__(self) -> None:
        self._kept: dict[str, data.Dataset] = {}

    def __call__(self, name: str, *, progress: data.Progress | None = None) -> data.Dataset:
        if name not in self._kept:
            self._kept = {name: data.load(name, progress=progress)}
        return self._kept[name]
