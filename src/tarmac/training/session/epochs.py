"""The epochs of a training, with checkpoints, metrics and the final scores."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import psutil
import torch

from tarmac.errors import TarmacError
from tarmac.machine import Device
from tarmac.runs import EventWriter, Run, now
from tarmac.training.engine.divergence import (
    Divergence,
    check_finite,
    check_loss_scale,
    find_divergence,
)
from tarmac.training.engine.engine import Engine
from tarmac.training.engine.epoch import Epoch
from tarmac.training.engine.loader_feed import explain_loader_error, is_loader_error
from tarmac.training.engine.scoring import Score
from tarmac.training.engine.strategies import find_strategy
from tarmac.training.engine.team import Team
from tarmac.training.plan import FeedName, Plan
from tarmac.training.session.best import BestSoFar
from tarmac.training.session.checkpoint import (
    keep_as_best,
    newest_checkpoint,
    portable,
    remove_older,
)
from tarmac.training.session.checkpoint_writer import CheckpointWriter, writing_checkpoints
from tarmac.training.session.modes import training_environment
from tarmac.training.session.patience import Patience, patience_of
from tarmac.training.session.record import Outcome
from tarmac.training.session.reporter import Reporter
from tarmac.training.session.restoring import restore
from tarmac.training.session.stacks import telling_stacks
from tarmac.training.session.utilization import speed_of
from tarmac.training.tensor_files import write_tensors
from tarmac.workloads import judged_by

# CUDA's own message if a context has too little memory.
_GPU_FULL = "CUDA error: out of memory"

# Longest time, in seconds, to repeat a diverged training in search of the step.
_LOOK_FOR_S = 60.0

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

    The first rank writes to the run's directory and reports. The caller writes ``run.json``.

    Args:
        plan: Training plan, with every value resolved.
        run: Run to train; the first rank writes to its directory.
        team: All processes that train together.
        reporter: Receives the progress of the training.
        interrupted: Called after every step; if true, save the state and stop.
        stop: Called with an epoch's metrics; returns a reason to stop, or None. See `tarmac.train`.
            All ranks have a function or none has, and only the first rank's is called.

    Raises:
        TarmacError: The training diverged, a device is out of memory, or files cannot be written.
    """
    started = time.perf_counter()
    devices = plan.devices_of(team.local_rank)
    with training_environment(plan, devices), _explained_errors(plan, devices), telling_stacks():
        _forget_peak_memory(devices)
        engine = Engine(plan, team)
        first_epoch, first_step = restore(engine, plan, run, team)
        engine.warm_up()
        if team.is_main:
            run.truncate_metrics(lambda row: int(row["epoch"]) <= first_epoch)
            reporter.started(plan, run, engine.num_parameters)
        with contextlib.ExitStack() as opened:
            opened.callback(engine.close)
            events = checkpoints = best = None
            if team.is_main:
                best = BestSoFar(run, newest_checkpoint(run.checkpoints))
                events = opened.enter_context(run.events(first_step=first_epoch + 1))
                checkpoints = opened.enter_context(writing_checkpoints(run.checkpoints))
            judged = judged_by(plan.workload)
            patience = patience_of(plan.patience, judged, plan.patience_metric)
            history = team.all_gather(run.history if team.is_main else [])[0]
            for row in history:
                patience.see_epoch(row)
            losses = [row.get("val_loss", row["loss"]) for row in history]
            setup_s = time.perf_counter() - started
            session = _Session(
                engine,
                plan,
                run,
                team,
                reporter,
                events,
                checkpoints,
                best,
                patience,
                losses,
                stop,
                setup_s,
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
    """The end of a training, with the reason if it ended before the last epoch."""

    why_early: str | None = None


@dataclasses.dataclass(frozen=True)
class _Session:
    """An engine in training, with the objects that record its progress.

    Only the first rank has ``events``, ``checkpoints`` and ``best``, as it writes for all ranks.
    Schedules may depend on ``losses``. ``setup_s`` is the time from the session's start to its
    first epoch, in seconds.
    """

    engine: Engine
    plan: Plan
    run: Run
    team: Team
    reporter: Reporter
    events: EventWriter | None
    checkpoints: CheckpointWriter | None
    best: BestSoFar | None
    patience: Patience
    losses: list[float]
    stop: EpochHook | None
    setup_s: float

    def train(
        self, first_epoch: int, first_step: int, interrupted: Callable[[], bool]
    ) -> _Ended | None:
        """Train the remaining epochs; return None if a signal interrupted them."""
        plan, engine = self.plan, self.engine
        epochs = plan.workload.recipe.epochs
        for epoch in range(first_epoch, epochs):
            if self.patience.why_over is not None:
                return _Ended(self.patience.why_over)

            engine.see_losses(self.losses)

            def after_step(step: int, epoch: int = epoch) -> bool:
                self.reporter.stepped(epoch + 1, step, engine.score_so_far)
                return interrupted()

            wanted = plan.steps_in(epoch)
            done = engine.train_epoch(epoch, first_step, after_step, last_step=wanted)
            first_step = 0
            if done.num_steps < wanted:
                self._save(epoch, done.num_steps)
                return None
            if self.team.is_main:
                find = partial(self._find_divergence, epoch)
                check_finite(done.score.loss, epoch + 1, str(plan.precision), find)
            if epoch * plan.num_steps + wanted == plan.steps:
                self._end_trial(epoch, done, is_first=epoch == first_epoch)
                return _Ended(f"a trial of {plan.steps} steps, as requested")
            validation = engine.evaluate_validation() if plan.validation_size else None
            # Write the line before the checkpoint. Resuming removes a line without a checkpoint. A
            # missing line could not be restored, and patience counts lines.
            row = _row(plan, epoch, done, validation, engine.learning_rate(epoch))
            if engine.num_skipped is not None:
                row["skipped_steps"] = engine.num_skipped
            self.losses.append((validation or done.score).loss)
            self.patience.see_epoch(row)
            self._set_time(row, is_first=epoch == first_epoch)
            if self.events is not None:
                self.run.append_metrics(row)
                for key in row.keys() - {"epoch", "at_s"}:
                    self.events.scalar(key, row[key], epoch + 1)
            why = self._why_over(row)
            is_last = epoch + 1 == epochs or why is not None
            self._check_taken(epoch, is_last=is_last)
            is_due = plan.steps is None and (epoch + 1) % plan.checkpoint_every == 0
            if is_due or is_last or done.stop:
                is_best = self.best is not None and self.best.sees(row)
                self._save(epoch + 1, 0, is_best=is_best)
            if self.events is not None:
                self.reporter.epoch_done(row)
            if is_last:
                return _Ended(why if epoch + 1 < epochs else None)
            if done.stop:
                return None
        return _Ended()

    def _end_trial(self, epoch: int, done: Epoch, *, is_first: bool) -> None:
        """Record the last epoch of a trial, without scores and checkpoints."""
        row = _row(self.plan, epoch, done, None, self.engine.learning_rate(epoch, done.num_steps))
        row["steps"] = done.num_steps
        self._set_time(row, is_first=is_first)
        if self.events is not None:
            self.run.append_metrics(row)
            self.reporter.epoch_done(row)

    def _set_time(self, row: dict[str, float], *, is_first: bool) -> None:
        """Add to an epoch's line its end time, and to the session's first line the setup time."""
        # The time axis is that of the GPU samples, so that one chart can show both.
        row["at_s"] = max(0.0, (now() - self.run.record.created_at).total_seconds())
        if is_first:
            row["setup_s"] = self.setup_s

    def _check_taken(self, epoch: int, *, is_last: bool) -> None:
        """Raise a TarmacError if fp16 training skips all its steps."""
        if self.team.is_main:
            num_steps = self.plan.num_steps * (epoch + 1)
            are_all_skipped = is_last and self.engine.num_skipped == num_steps
            check_loss_scale(self.engine.loss_scale, epoch + 1, are_all_skipped=are_all_skipped)

    def _why_over(self, row: Mapping[str, float]) -> str | None:
        """Return why the training stops after this epoch, the same on all ranks; None if not."""
        why = self.patience.why_over
        if self.stop is not None:
            cause: str | None = self.team.all_gather(self.stop(row) if self.team.is_main else None)[
                0
            ]
            why = why or cause
        return why

    def finish(self) -> dict[str, float]:
        """Score the test set if that is wanted, and write the weights.

        A trial does neither: its result is its speed.
        """
        metrics: dict[str, float] = {}
        is_trial = self.plan.steps is not None
        if self.plan.score_test and not is_trial:
            test = self.engine.evaluate_test()
            metrics |= test.named("test_")
        scored = None if is_trial else self.engine.scored_weights()
        if self.events is not None:
            if scored is not None:
                weights = {name: portable(value) for name, value in scored.items()}
                write_tensors(self.run.model, weights)
            history = self.run.history
            last = history[-1]
            names = ("loss", *self.plan.workload.objective.metrics)
            metrics |= {f"train_{name}": last[name] for name in names if name in last}
            metrics |= {
                f"val_{name}": last[f"val_{name}"] for name in names if f"val_{name}" in last
            }
            metrics["train_seconds"] = sum(row["seconds"] for row in history)
            metrics["setup_s"] = sum(row.get("setup_s", 0.0) for row in history)
            if is_trial:
                metrics |= speed_of(self.plan, history)
            for key, value in metrics.items():
                if key.startswith("test_"):
                    self.events.scalar(key, value, int(last["epoch"]))
        return metrics

    def _find_divergence(self, epoch: int) -> Divergence | None:
        """Train again from the newest checkpoint, step by step, to find where the loss diverged."""
        if self.team.world_size > 1:
            return None
        feed: FeedName = "loader" if self.plan.feed == "loader" else "direct"
        plan = dataclasses.replace(self.plan, fused=False, feed=feed)
        # The search only adds detail, so its own failure must not replace the error.
        with contextlib.suppress(RuntimeError, MemoryError, TarmacError):
            if self.checkpoints is not None:
                self.checkpoints.wait()
            engine = Engine(plan, self.team)
            position = restore(engine, plan, self.run, self.team)
            return find_divergence(
                engine, plan, position=position, epoch=epoch, limit_s=_LOOK_FOR_S
            )
        return None

    def _save(self, epoch: int, step: int, *, is_best: bool = False) -> None:
        state = self.engine.save(epoch, step)
        if find_strategy(self.plan.strategy).shards_model:
            from tarmac.training.session.sharded_checkpoint import (  # noqa: PLC0415 - slow
                write_sharded,
            )

            path = write_sharded(self.run.checkpoints, state, self.team)
            if self.team.is_main:
                if is_best:
                    keep_as_best(path)
                remove_older(self.run.checkpoints)
            return
        if self.checkpoints is not None:
            self.checkpoints.write(state, is_best=is_best)


def _row(
    plan: Plan, epoch: int, done: Epoch, validation: Score | None, learning_rate: float
) -> dict[str, float]:
    """Return an epoch's line of ``metrics.jsonl``."""
    shares = plan.shares
    row: dict[str, float] = {"epoch": epoch + 1} | done.score.named()
    if validation is not None:
        row |= validation.named("val_")
    if done.rank_wait_s is not None:
        row["rank_wait_s"] = done.rank_wait_s
    return row | {
        "learning_rate": learning_rate,
        "samples_per_s": min(done.num_steps * shares.batch_size, shares.num_samples) / done.seconds,
        "seconds": done.seconds,
        "data_wait_s": done.data_wait_s,
        "memory_bytes": _memory_bytes(plan),
    }


def _forget_peak_memory(devices: Sequence[Device]) -> None:
    """Reset the peak memory statistics, which may include an earlier training."""
    for device in devices:
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device.index)


def _memory_bytes(plan: Plan) -> int:
    """Return the peak memory on a GPU, or the process's current memory on a CPU, in bytes."""
    if plan.devices[0].type == "cuda":
        return torch.cuda.max_memory_allocated(plan.devices[0].index)
    return int(psutil.Process().memory_info().rss)


@contextlib.contextmanager
def _explained_errors(plan: Plan, devices: Sequence[Device]) -> Iterator[None]:
    """Explain errors of CUDA and of too little memory, with a hint."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if is_loader_error(error):
            # PyTorch raises this error at any point of the training.
            raise explain_loader_error(f"dataset {plan.dataset.name!r}", error) from error
        names = ", ".join(dict.fromkeys(device.torch_name for device in devices))
        # If a context does not fit, CUDA itself raises the error, not PyTorch's allocator.
        is_gpu = isinstance(error, torch.OutOfMemoryError) or str(error).startswith(_GPU_FULL)
        if str(error).startswith("CUDA error") and not is_gpu:
            # The first line is the error. The others are advice for PyTorch's developers.
            raise TarmacError(
                f"{names}: {str(error).splitlines()[0]}",
                hint="Find the cause: tarmac check",
            ) from error
        is_cpu = isinstance(error, MemoryError) or "can't allocate memory" in str(error)
        if not (is_cpu or is_gpu):
            raise
        others = "\nSee what other processes hold: nvidia-smi" if is_gpu else ""
        raise TarmacError(
            f"out of memory on {names} with {plan.shares.largest} samples at a time",
            hint=f"Try a smaller --batch-size, or --accumulate 2.{others}",
        ) from error
