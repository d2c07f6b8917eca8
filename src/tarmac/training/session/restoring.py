"""Restore a training from its run's newest checkpoint."""

from __future__ import annotations

from pathlib import Path

from tarmac.errors import RequestError, TarmacError
from tarmac.runs import Run
from tarmac.training.engine.engine import Engine
from tarmac.training.engine.strategies import find_strategy
from tarmac.training.engine.team import Team
from tarmac.training.initial import INITIAL, read_weights
from tarmac.training.plan import Plan
from tarmac.training.session.checkpoint import check_fits, newest_checkpoint, read_checkpoint
from tarmac.training.shard_directories import SHARDED


def restore(engine: Engine, plan: Plan, run: Run, team: Team) -> tuple[int, int]:
    """Restore an engine from a run's newest checkpoint, or from its initial weights.

    Returns:
        Epoch and step from which to train; 0 and 0 without a checkpoint.

    Raises:
        RequestError: The checkpoint is in shards, which the plan's strategy does not read.
        TarmacError: The checkpoint cannot be read, or the model does not fit it.
    """
    path = team.all_gather(newest_checkpoint(run.checkpoints))[0]
    if path is None:
        if run.record.configuration.get("from_checkpoint") is not None:
            raise TarmacError(
                f"run {run.name} ended before it had copied the checkpoint to continue from",
                hint="Remove it, and start it again with the same command.",
            )
        if run.record.configuration.get("init_from") is not None:
            engine.load(read_weights(run.path / INITIAL))
        return 0, 0
    if path.suffix == SHARDED:
        from tarmac.training.session.sharded_checkpoint import read_sharded  # noqa: PLC0415 - slow

        _check_reads_shards(plan, path)
        checkpoint = read_sharded(path, plan.reference, engine, team)
    else:
        checkpoint = read_checkpoint(path, plan.reference)
    check_fits(checkpoint, engine.weights(), path)
    engine.restore(checkpoint)
    return checkpoint.epoch, checkpoint.step


def _check_reads_shards(plan: Plan, path: Path) -> None:
    if not find_strategy(plan.strategy).shards_model:
        raise RequestError(
            f"checkpoint {path} is in shards, which {plan.strategy} does not read",
            hint="Resume with --strategy fsdp, on any number of devices.",
        )
