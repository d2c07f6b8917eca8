"""The origin of a new run: another run's weights, or its newest checkpoint for more epochs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tarmac import runs
from tarmac.errors import RequestError, quoted, unknown_name
from tarmac.files import journal_text, read_errors, write_bytes, write_text
from tarmac.runs import Run
from tarmac.training.initial import PICKLED
from tarmac.training.session.checkpoint import (
    best_checkpoint,
    epoch_of,
    newest_checkpoint,
    read_checkpoint,
)
from tarmac.training.shard_directories import SHARDED, copy_sharded

Checkpoint = Literal["best", "last"]
CHECKPOINTS: Mapping[str, str] = {
    "best": "the checkpoint that was best on held-out data",
    "last": "the weights at the end, or the newest checkpoint before it",
}

# Values on the clock of the source run, which differs from the new run's.
_OF_THE_OTHER = ("at_s", "setup_s")


def find_weights(
    reference: str, output: Path | None = None, *, checkpoint: Checkpoint = "last"
) -> Path:
    """Find weights: a file, or the directory of a sharded checkpoint.

    Args:
        reference: A ``.safetensors`` file, a file of ``torch.save`` (``.pt``, ``.pth``, ``.bin``,
            ``.ckpt``), a sharded checkpoint (``.dcp``), or a run: its directory, its name or
            ``"latest"``. A run that is not completed gives its newest checkpoint.
        output: Directory of the runs; by default `runs.default_output`.
        checkpoint: For a run, ``best`` is the checkpoint that was best on held-out data.

    Raises:
        RequestError: There is no such run, or it has no weights or no best checkpoint yet.
    """
    if Path(reference).suffix in (".safetensors", SHARDED, *PICKLED):
        return Path(reference)
    run = runs.resolve(reference, output)
    if checkpoint not in CHECKPOINTS:
        raise unknown_name("checkpoint", checkpoint, CHECKPOINTS)
    if checkpoint == "best":
        best = best_checkpoint(run.checkpoints)
        if best is None:
            raise RequestError(
                f"run {run.name} has no best checkpoint",
                hint="A training keeps one if samples are held out: --validation-size N",
            )
        return best
    # lexists, so that a broken link is reported as damaged instead of ignored.
    if os.path.lexists(run.model):
        return run.model
    newest = newest_checkpoint(run.checkpoints)
    if newest is None:
        raise RequestError(f"run {run.name} has no weights yet: it has no checkpoint")
    return newest


def check_extension(source: Run, epochs: int) -> None:
    """Refuse to extend a run that cannot continue, before anything is created.

    Args:
        source: Run whose newest checkpoint the new run continues.
        epochs: Epochs of the whole training, including those already done.

    Raises:
        RequestError: The run is still training, has no checkpoint, has done that many epochs, or
            was stopped by patience, which would stop it again at once.
        TarmacError: Its checkpoint is damaged.
    """
    if source.status == "running":
        raise RequestError(
            f"run {source.name} is still being trained", hint="Wait for its end, or stop it first."
        )
    newest = newest_checkpoint(source.checkpoints)
    if newest is None:
        raise RequestError(f"run {source.name} has no checkpoint to continue from")
    done = _epochs_of(source, newest)
    if epochs <= done:
        raise RequestError(
            f"epochs is {epochs}, but run {source.name} has done {done}",
            hint=f"Give the total number of epochs. For as many again: --epochs {2 * done}",
        )
    if source.record.stopped_early is not None and source.record.configuration.get("patience"):
        raise RequestError(
            f"run {source.name} was stopped by its patience, which would stop it again at once: "
            f"{source.record.stopped_early}",
            hint=f"Start a new training with its weights: --init-from {quoted(source.path)}",
        )


def begin_from(run: Run, source: Run) -> None:
    """Copy another run's newest checkpoint and its history up to there into a new run.

    Raises:
        StorageError: They cannot be read or written.
    """
    newest = newest_checkpoint(source.checkpoints)
    assert newest is not None, "check_extension was called"
    done = _epochs_of(source, newest)
    rows = [
        {key: value for key, value in row.items() if key not in _OF_THE_OTHER}
        for row in source.history
        if row["epoch"] <= done
    ]
    write_text(run.path / "metrics.jsonl", journal_text(rows))
    # Write the checkpoint last: the run cannot begin without it.
    if newest.is_dir():
        copy_sharded(newest, run.checkpoints / newest.name)
        return
    with read_errors(newest):
        content = newest.read_bytes()
    write_bytes(run.checkpoints / newest.name, content)


def _epochs_of(run: Run, checkpoint: Path) -> int:
    """Return the number of completed epochs in a run's checkpoint, and check it for damage."""
    if checkpoint.is_dir():
        from tarmac.training.shards import check_shards  # noqa: PLC0415 - slow

        check_shards(checkpoint)
        return epoch_of(checkpoint)
    return read_checkpoint(checkpoint, str(run.record.configuration["workload"])).epoch
