"""How a training is shown: live on a terminal, one plain line per epoch elsewhere."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

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
from tarmac.machine import name_devices
from tarmac.training import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console

    from tarmac.runs import Run
    from tarmac.training import Plan, Reporter, Score

__all__ = ["reporter_for"]

# Each look at the running score waits for the device, so a person gets a few a second.
_LOOK_EVERY_S = 0.25


@contextlib.contextmanager
def reporter_for(*, quiet: bool, verbose: bool) -> Iterator[Reporter]:
    """Give the reporter that suits where the output goes.

    Args:
        quiet: Report nothing.
        verbose: Say why devices, feed and batch size are what they are.
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


class _Plain(Silent):
    """One line per epoch."""

    def __init__(self, console: Console, *, verbose: bool) -> None:
        self._console = console
        self._verbose = verbose
        self._epochs = 0

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        recipe = plan.workload.recipe
        self._epochs = recipe.epochs
        optimizer = type(recipe.optimizer).__name__
        compiled = "on" if plan.compile else "off"
        title = Text.assemble(
            (plan.workload.name, "bold"),
            f": {num_parameters:,} parameters on {plan.train_size:,} samples of "
            f"{plan.dataset.name}; {optimizer}, rate {recipe.optimizer.learning_rate:g}, "
            f"batches of {recipe.batch_size}, {recipe.epochs} epochs, seed {plan.seed}",
        )
        self._console.print(title)
        for line in (
            *self._layout(plan),
            f"precision  {plan.precision}: {plan.reasons['precision']}",
            f"compile    {compiled}: {plan.reasons['compile']}",
            f"run        {run.path}",
        ):
            # A path may hold what Rich would take for markup.
            self._console.print(line, markup=False)

    def restarting(self, reason: str) -> None:
        self._console.print(reason, markup=False)

    def _layout(self, plan: Plan) -> Iterator[str]:
        """Yield what is worth saying of devices, strategy and feed."""
        names = dict.fromkeys(device.name for device in plan.devices)
        label = "devices" if plan.world_size > 1 else "device"
        yield f"{label:<9}  {name_devices(plan.devices)} ({', '.join(names)})"
        if plan.world_size > 1 or self._verbose:
            yield f"strategy   {plan.strategy}: {plan.reasons['strategy']}"
        if not self._verbose:
            return
        yield f"chosen     {plan.reasons['devices']}"
        yield f"batch      {plan.reasons['batch_size']}"
        yield f"feed       {plan.feed}: {plan.reasons['feed']}"
        yield f"fused      {'on' if plan.fused else 'off'}: {plan.reasons['fused']}"
        threads = plan.devices[0].num_threads
        if threads and plan.process_per_device:
            yield f"threads    {threads} for each process"

    def epoch_done(self, row: Mapping[str, float]) -> None:
        line = (
            f"epoch {int(row['epoch']):>{len(str(self._epochs))}}/{self._epochs}  "
            f"loss {row['loss']:.4f}  accuracy {row['accuracy']:.4f}  "
        )
        if "val_accuracy" in row:
            line += f"val_loss {row['val_loss']:.4f}  val_accuracy {row['val_accuracy']:.4f}  "
        self._console.print(f"{line}{row['samples_per_s']:,.0f} samples/s  {row['seconds']:.2f} s")


class _Live(_Plain):
    """The same lines, with bars below them while something is under way."""

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
            "score": f"loss {so_far.loss:.4f}  accuracy {so_far.accuracy:.4f}  "
            f"{rate:,.0f} samples/s",
        }
        self._progress.update(self._steps, **shown)
