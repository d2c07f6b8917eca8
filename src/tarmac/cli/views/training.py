"""Progress of a training: live on a terminal, one plain line per epoch elsewhere."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from tarmac.cli.console import make_console
from tarmac.cli.views.layers import layer_lines
from tarmac.cli.views.scores import scores_text
from tarmac.machine import UNUSABLE, name_devices
from tarmac.runs import Run
from tarmac.training import ONE_OF_SEVERAL, Plan, Reporter, Score, Silent
from tarmac.wording import counted, in_one_line

# Reading the running score waits for the device, so it is read only a few times a second.
_LOOK_EVERY_S = 0.25


@contextlib.contextmanager
def reporter_for(*, quiet: bool, verbose: bool) -> Iterator[Reporter]:
    """Yield the reporter for a terminal or for other output.

    Args:
        quiet: Whether to suppress all progress output.
        verbose: Whether to print the reasons for devices, feed and batch size.
    """
    if quiet:
        yield Silent()
        return
    console = make_console()
    if not console.is_terminal:
        yield _Plain(console, verbose=verbose)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[score]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=8) as progress:
        yield _Live(console, progress, verbose=verbose)


def _rate(samples_per_s: float) -> str:
    return f"{samples_per_s:,.0f}" if samples_per_s >= 10 else f"{samples_per_s:.3g}"


def _samples(plan: Plan) -> str:
    size = plan.shares.num_samples
    if size < plan.train_size:
        return f"{size:,} of {counted(plan.train_size, 'sample')}"
    return counted(size, "sample")


def _threads(plan: Plan) -> Iterator[str]:
    """Yield the number of threads of the CPU's operations, if it was chosen."""
    if plan.threads is not None:
        yield f"threads    {plan.threads}: {plan.reasons['threads']}"


def _note(plan: Plan) -> Iterator[str]:
    """Yield notes on the data, the batch size and the model's output."""
    if plan.dataset.note:
        yield f"data       {plan.dataset.note}"
    size, batch_size = plan.shares.num_samples, plan.workload.recipe.batch_size
    if batch_size > size:
        yield (
            f"note       a batch of {batch_size:,} is more than the {counted(size, 'sample')}: "
            "each epoch is one step"
        )
    if plan.returns_probabilities:
        yield (
            "note       the model returns probabilities, but the loss applies the softmax "
            "itself: return logits, without a Softmax at the end"
        )


def _trial(plan: Plan) -> Iterator[str]:
    """Yield the part of its training that a trial covers."""
    if plan.steps is not None:
        whole = counted(plan.num_steps * plan.workload.recipe.epochs, "step")
        yield f"trial      {plan.steps:,} of {whole}: nothing is scored, judged or kept"


def _origin(plan: Plan, run: Run) -> Iterator[str]:
    """Yield the origin of a training's weights, unless its seed determines all of them."""
    configuration = run.record.configuration
    if configuration.get("init_from") is not None:
        drawn = configuration["init_drawn"]
        rest = f"; initialized from the seed: {', '.join(drawn)}" if drawn else ""
        yield f"weights    of {configuration['init_from']}{rest}"
    if configuration.get("from_checkpoint") is None:
        return
    history = run.history
    done = int(history[-1]["epoch"]) if history else 0
    recipe = plan.workload.recipe
    rate = recipe.learning_rates(done / recipe.epochs)[0]
    yield f"continues  from epoch {done} of {configuration['from_checkpoint']}"
    if history and not math.isclose(rate, history[-1]["learning_rate"]):
        yield (
            f"schedule   now over {counted(recipe.epochs, 'epoch')}: the rate continues at "
            f"{rate:g}, after {history[-1]['learning_rate']:g}"
        )


class _Plain(Silent):
    """A reporter with a line per epoch."""

    def __init__(self, console: Console, *, verbose: bool) -> None:
        self._console = console
        self._verbose = verbose
        self._epochs = 0
        self._scores: Sequence[str] = ()

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        recipe = plan.workload.recipe
        self._epochs = recipe.epochs
        self._scores = run.record.judged_by.scores
        compiled = "on" if plan.compile else "off"
        what = f"{counted(num_parameters, 'parameter')} on {_samples(plan)} of {plan.dataset.name}"
        how = (
            f"{recipe.optimizer.name}, rate {recipe.optimizer.learning_rate:g}, "
            f"batches of {recipe.batch_size}, {counted(recipe.epochs, 'epoch')}, seed {plan.seed}"
        )
        title = Text.assemble((plan.workload.name, "bold"), f": {what}; {how}")
        if title.cell_len > self._console.width:
            title = Text.assemble((plan.workload.name, "bold"), f": {what}\nrecipe     {how}")
        self._console.print(title)
        for line in (
            *self._layout(plan),
            f"precision  {plan.precision}: {plan.reasons['precision']}",
            *_threads(plan),
            f"compile    {compiled}: {plan.reasons['compile']}",
            *_note(plan),
            *_trial(plan),
            *_origin(plan, run),
            *(layer_lines(plan.layers) if self._verbose else ()),
            in_one_line(f"run        {run.path}"),
        ):
            # Rich would find markup in some paths.
            self._console.print(line, markup=False)

    def restarting(self, reason: str) -> None:
        self._console.print(reason, markup=False)

    def _layout(self, plan: Plan) -> Iterator[str]:
        """Yield the lines on devices, strategy and feed."""
        names = dict.fromkeys(device.name for device in plan.devices)
        label = "devices" if plan.world_size > 1 else "device"
        yield f"{label:<9}  {name_devices(plan.devices)} ({', '.join(names)})"
        if plan.world_size > 1 or self._verbose:
            yield f"strategy   {plan.strategy}: {plan.reasons['strategy']}"
        # All users see choices that make a training slower than the machine allows.
        if self._verbose or plan.reasons["devices"].startswith((UNUSABLE, ONE_OF_SEVERAL)):
            yield f"chosen     {plan.reasons['devices']}"
        # All users see a loader, which decides whether a stopped training resumes exactly.
        if self._verbose or plan.feed == "loader":
            yield f"feed       {plan.feed}: {plan.reasons['feed']}"
        if not self._verbose:
            return
        yield f"batch      {plan.reasons['batch_size']}"
        autotuned = "on" if plan.autotune else "off"
        yield f"autotune   {autotuned}: {plan.reasons['autotune']}"
        yield f"fused      {'on' if plan.fused else 'off'}: {plan.reasons['fused']}"
        threads = plan.devices[0].num_threads
        if threads and plan.process_per_device:
            yield f"threads    {threads} for each process"

    def epoch_done(self, row: Mapping[str, float]) -> None:
        parts = [
            f"epoch {int(row['epoch']):>{len(str(self._epochs))}}/{self._epochs}",
            *scores_text(row, self._scores),
        ]
        seconds = f"{row['seconds']:.2f} s"
        # A narrow terminal drops values, which metrics.jsonl has.
        for rest in ([f"{_rate(row['samples_per_s'])} samples/s", seconds], [seconds], []):
            line = "  ".join([*parts, *rest])
            if len(line) <= self._console.width:
                break
        self._console.print(line)


class _Live(_Plain):
    """The same lines, with bars below them during work."""

    def __init__(self, console: Console, progress: Progress, *, verbose: bool) -> None:
        super().__init__(console, verbose=verbose)
        self._progress = progress
        self._steps: TaskID | None = None
        self._download: dict[str, TaskID] = {}
        self._per_epoch = 0
        self._batch_size = 0
        self._next_look = 0.0
        self._since: tuple[float, int] | None = None

    def downloading(self, done: int, total: int | None, file: str) -> None:
        if file not in self._download:
            self._download[file] = self._progress.add_task(f"fetch {file}", total=total, score="")
        self._progress.update(self._download[file], completed=done, total=total)

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        super().started(plan, run, num_parameters)
        for task in self._download.values():
            self._progress.remove_task(task)
        self._per_epoch, self._batch_size = plan.num_steps, plan.workload.recipe.batch_size
        self._steps = self._progress.add_task(
            "", total=self._per_epoch * plan.workload.recipe.epochs, score=""
        )

    def stepped(self, epoch: int, step: int, score: Callable[[], Score]) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY_S
        assert self._steps is not None
        total = (epoch - 1) * self._per_epoch + step
        if self._since is None:
            self._since = (now, total)
        rate = self._batch_size * (total - self._since[1]) / max(now - self._since[0], 1e-9)
        so_far = score()
        shown: dict[str, Any] = {
            "completed": total,
            "description": f"epoch {epoch}/{self._epochs}",
            "score": "  ".join(f"{name} {value:.4f}" for name, value in so_far.named().items())
            + f"  {rate:,.0f} samples/s",
        }
        self._progress.update(self._steps, **shown)
