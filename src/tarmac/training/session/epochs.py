"""Takes an engine through its epochs, with checkpoints, metrics and the final scores."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import psutil
import torch
from safetensors.torch import save

from tarmac.errors import TarmacError
from tarmac.files import write_bytes
from tarmac.training.engine.engine import Engine, Epoch, check_finite
from tarmac.training.session.checkpoint import (
    check_fits,
    newest_checkpoint,
    portable,
    read_checkpoint,
)
from tarmac.training.session.checkpoint_writer import CheckpointWriter, writing_checkpoints
from tarmac.training.session.modes import training_environment
from tarmac.training.session.patience import Patience
from tarmac.training.session.record import Outcome
from tarmac.training.session.stacks import telling_stacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tarmac.machine import Device
    from tarmac.runs import EventWriter, Run
    from tarmac.training.engine.replica import Score
    from tarmac.training.engine.team import Team
    from tarmac.training.plan import Plan
    from tarmac.training.session.reporter import Reporter

__all__ = ["EpochHook", "train_epochs"]

# How CUDA itself says it, where a context finds too little.
_GPU_FULL = "CUDA error: out of memory"

EpochHook = Callable[[Mapping[str, float]], str | None]


def train_epochs(
    plan: Plan,
    run: Run,
    team: Team,
    reporter: Reporter,
    interrupted: Callable[[], bool],
    *,
    stop: EpochHook | None = None,
) -> Outcome:
    """Train from the newest checkpoint to the end, as one process of a team.

    The first rank writes to the run's directory and reports; ``run.json`` is left to the caller.

    Args:
        plan: What to do.
        run: Where to.
        team: All processes that train together.
        reporter: Is told how it goes.
        interrupted: Whether to save the state and stop; asked after every step.
        stop: Given an epoch's metrics, why the training ends with it; see `tarmac.train`. All
            ranks have one or none has, and the first rank's is asked.

    Raises:
        TarmacError: The training diverged, a device is out of memory, files cannot be written.
    """
    started = time.perf_counter()
    devices = plan.devices_of(team.local_rank)
    with training_environment(plan, devices), _explained_errors(plan, devices), telling_stacks():
        _forget_peak_memory(devices)
        engine = Engine(plan, team)
        first_epoch, first_step = _restore(engine, plan, run, team)
        engine.warm_up()
        if team.is_main:
            run.truncate_metrics(lambda row: int(row["epoch"]) <= first_epoch)
            reporter.started(plan, run, engine.num_parameters)
        with contextlib.ExitStack() as opened:
            events = checkpoints = None
            if team.is_main:
                events = opened.enter_context(run.events(first_step=first_epoch + 1))
                checkpoints = opened.enter_context(writing_checkpoints(run.checkpoints))
            patience = Patience(plan.patience)
            for loss in team.all_gather(_validation_losses(run) if team.is_main else [])[0]:
                patience.see(loss)
            setup_s = time.perf_counter() - started
            session = _Session(
                engine, plan, run, team, reporter, events, checkpoints, patience, stop, setup_s
            )
            ended = session.train(first_epoch, first_step, interrupted)
            if ended is None:
                return Outcome(replicas=engine.replicas())
            return Outcome(
                metrics=session.finish(),
                stopped_early=ended.why_early,
                replicas=engine.replicas(),
            )


@dataclasses.dataclass(frozen=True)
class _Ended:
    """That a training is done, and why before its last epoch where that is so."""

    why_early: str | None = None


@dataclasses.dataclass(frozen=True)
class _Session:
    """An engine at work; ``events`` and ``checkpoints`` are the first rank's, which writes for all.

    ``setup_s`` is the time from the session's beginning to its first epoch.
    """

    engine: Engine
    plan: Plan
    run: Run
    team: Team
    reporter: Reporter
    events: EventWriter | None
    checkpoints: CheckpointWriter | None
    patience: Patience
    stop: EpochHook | None
    setup_s: float

    def train(
        self, first_epoch: int, first_step: int, interrupted: Callable[[], bool]
    ) -> _Ended | None:
        """Do the epochs from a position on; return None where a signal interrupted them."""
        plan, engine = self.plan, self.engine
        epochs = plan.workload.recipe.epochs
        for epoch in range(first_epoch, epochs):
            if self.patience.why_over is not None:
                return _Ended(self.patience.why_over)

            def after_step(step: int, epoch: int = epoch) -> bool:
                self.reporter.stepped(epoch + 1, step, engine.score_so_far)
                return interrupted()

            done = engine.train_epoch(epoch, first_step, after_step)
            first_step = 0
            if done.num_steps < plan.num_steps:
                self._save(epoch, done.num_steps)
                return None
            if self.team.is_main:
                check_finite(done.score, epoch + 1)
            validation = engine.evaluate_validation() if plan.validation_size else None
            if validation is not None:
                self.patience.see(validation.loss)
            # The line comes first: one that no checkpoint follows is removed when resuming, but one
            # that is missing would be so for good, and patience counts them.
            row = _row(plan, epoch, done, validation)
            if epoch == first_epoch:
                row["setup_s"] = self.setup_s
            if self.events is not None:
                self.run.append_metrics(row)
                for key in row.keys() - {"epoch"}:
                    self.events.scalar(key, row[key], epoch + 1)
            why = self._why_over(row)
            is_last = epoch + 1 == epochs or why is not None
            if (epoch + 1) % plan.checkpoint_every == 0 or is_last or done.stop:
                self._save(epoch + 1, 0)
            if self.events is not None:
                self.reporter.epoch_done(row)
            if is_last:
                return _Ended(why if epoch + 1 < epochs else None)
            if done.stop:
                return None
        return _Ended()

    def _why_over(self, row: Mapping[str, float]) -> str | None:
        """Return why an epoch is to be the last one, the same on all ranks."""
        why = self.patience.why_over
        if self.stop is not None:
            asked: str | None = self.team.all_gather(self.stop(row) if self.team.is_main else None)[
                0
            ]
            why = why or asked
        return why

    def finish(self) -> dict[str, float]:
        """Score the test set, once and where that is wanted, and write the weights."""
        metrics: dict[str, float] = {}
        if self.plan.score_test:
            test = self.engine.evaluate_test()
            metrics |= {"test_accuracy": test.accuracy, "test_loss": test.loss}
        if self.events is not None:
            weights = {name: portable(value) for name, value in self.engine.weights().items()}
            write_bytes(self.run.model, save(weights))
            history = self.run.history
            last = history[-1]
            metrics |= {"train_accuracy": last["accuracy"], "train_loss": last["loss"]}
            metrics |= {key: last[key] for key in ("val_accuracy", "val_loss") if key in last}
            metrics["train_seconds"] = sum(row["seconds"] for row in history)
            metrics["setup_s"] = sum(row.get("setup_s", 0.0) for row in history)
            for key in metrics.keys() & {"test_accuracy", "test_loss"}:
                self.events.scalar(key, metrics[key], int(last["epoch"]))
        return metrics

    def _save(self, epoch: int, step: int) -> None:
        state = self.engine.save(epoch, step)
        if self.checkpoints is not None:
            self.checkpoints.write(state)


def _restore(engine: Engine, plan: Plan, run: Run, team: Team) -> tuple[int, int]:
    """Bring the engine to the run's newest checkpoint; return its epoch and step."""
    path = team.all_gather(newest_checkpoint(run.checkpoints))[0]
    if path is None:
        return 0, 0
    checkpoint = read_checkpoint(path, plan.reference)
    check_fits(checkpoint, engine.weights(), path)
    engine.restore(checkpoint)
    return checkpoint.epoch, checkpoint.step


def _validation_losses(run: Run) -> list[float]:
    return [row["val_loss"] for row in run.history if "val_loss" in row]


def _row(plan: Plan, epoch: int, done: Epoch, validation: Score | None) -> dict[str, float]:
    """Make an epoch's line of ``metrics.jsonl``."""
    recipe = plan.workload.recipe
    row: dict[str, float] = {
        "epoch": epoch + 1,
        "loss": done.score.loss,
        "accuracy": done.score.accuracy,
    }
    if validation is not None:
        row |= {"val_loss": validation.loss, "val_accuracy": validation.accuracy}
    if done.rank_wait_s is not None:
        row["rank_wait_s"] = done.rank_wait_s
    last_step = (epoch + (plan.num_steps - 1) / plan.num_steps) / recipe.epochs
    return row | {
        "learning_rate": recipe.optimizer.learning_rate * recipe.schedule.factor(last_step),
        "samples_per_s": min(plan.num_steps * recipe.batch_size, plan.train_size) / done.seconds,
        "seconds": done.seconds,
        "data_wait_s": done.data_wait_s,
        "memory_bytes": _memory_bytes(plan),
    }


def _forget_peak_memory(devices: Sequence[Device]) -> None:
    """Let the most memory that is recorded be this training's, not that of one before it."""
    for device in devices:
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device.index)


def _memory_bytes(plan: Plan) -> int:
    """Return the most memory taken so far on a GPU, or what the process holds now on a CPU."""
    if plan.devices[0].type == "cuda":
        return torch.cuda.max_memory_allocated(plan.devices[0].index)
    return int(psutil.Process().memory_info().rss)


@contextlib.contextmanager
def _explained_errors(plan: Plan, devices: Sequence[Device]) -> Iterator[None]:
    """Say what to do where a device has too little memory, or CUDA fails."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        names = ", ".join(dict.fromkeys(device.torch_name for device in devices))
        # A context that does not fit is an error of CUDA's own, not of PyTorch's memory.
        is_gpu = isinstance(error, torch.OutOfMemoryError) or str(error).startswith(_GPU_FULL)
        if str(error).startswith("CUDA error") and not is_gpu:
            # Its first line is what happened; the others are advice to PyTorch's developers.
            raise TarmacError(
                f"{names}: {str(error).splitlines()[0]}",
                hint="Find its cause: tarmac check",
            ) from error
        is_cpu = isinstance(error, MemoryError) or "can't allocate memory" in str(error)
        if not (is_cpu or is_gpu):
            raise
        others = "\nWhat other processes hold of it: nvidia-smi" if is_gpu else ""
        raise TarmacError(
            f"out of memory on {names} with {plan.shares.largest} samples at a time",
            hint=f"Try a smaller --batch-size, or --accumulate 2.{others}",
        ) from error
