"""The end of ``tarmac train``: the run's result, and whether that is as expected."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.lead_process import is_rank_zero
from tarmac.cli.trial_end import trial_lines
from tarmac.cli.views.scores import score_text
from tarmac.errors import Interrupted, PeerFailed, TarmacError, quoted
from tarmac.runs import name_words
from tarmac.wording import counted, in_one_line

if TYPE_CHECKING:
    from tarmac.runs import Run, RunRecord


def conclude(run: Run, *, as_json: bool, verify: bool) -> None:
    """Print the end of a training, if this process prints for all ranks.

    Args:
        run: Run of the training, ended or interrupted.
        as_json: Whether to print JSON only.
        verify: Whether a result that is not as expected is a failure.

    Raises:
        Interrupted: A signal ended the training.
        TarmacError: The result is not as expected.
        PeerFailed: The result is not as expected, and another process reports that.
    """
    failure = _failure(run, verify=verify)
    if not is_rank_zero():
        if failure is None:
            return
        raise failure if isinstance(failure, Interrupted) else PeerFailed(failure.message)
    record = run.record
    if as_json:
        result = {
            "path": str(run.path),
            "status": record.status,
            "workload": record.workload,
            "metrics": record.metrics,
            "expectation": record.expectation,
        }
        click.echo(json.dumps(result, indent=2))
    elif record.status == "completed":
        if "setup_s" in record.metrics:
            setup_s, train_s = record.metrics["setup_s"], record.metrics["train_seconds"]
            click.echo(f"set up in {setup_s:.2f} s, trained in {train_s:.2f} s")
        if record.configuration.get("steps") is not None:
            for line in trial_lines(record):
                click.echo(line)
        elif record.stopped_early is not None:
            last, epochs = run.history[-1]["epoch"], record.configuration["epochs"]
            click.echo(f"stopped after epoch {last:g} of {epochs}: {record.stopped_early}")
        if record.configuration.get("steps") is None:
            _say_result(record, _weights(run))
        if (note := _no_better_than_guessing(record) or _hardly_fallen(run)) is not None:
            click.secho(note, fg="yellow")
        if (best := record.best) is not None:
            name = name_words(best.metric)
            click.echo(f"best in epoch {best.epoch}: {name} {best.value:.4f}, kept in {best.file}")
        click.echo(in_one_line(f"run {run.path}"))
    if failure is not None:
        raise failure


def _no_better_than_guessing(record: RunRecord) -> str | None:
    """Return a note if a classification is no better than chance, else None."""
    classes, loss = record.dataset.get("num_classes"), record.metrics.get("train_loss", 0.0)
    kind = (record.configuration.get("objective") or {}).get("kind")
    if kind != "Classification" or not classes or loss < math.log(classes):
        return None
    return (
        f"note: the training loss {score_text(loss)} is no better than guessing among "
        f"{counted(classes, 'class')}, {math.log(classes):.4f}: try a smaller --lr, or more epochs"
    )


def _hardly_fallen(run: Run) -> str | None:
    """Return a note if a regression from drawn weights learns nothing, else None."""
    configuration, losses = run.record.configuration, [row["loss"] for row in run.history]
    kind = (configuration.get("objective") or {}).get("kind")
    if kind != "Regression" or configuration.get("init_from") is not None or len(losses) < 3:
        return None
    percent = 100 * (1 - losses[-1] / losses[0]) if losses[0] else 100.0
    if percent >= 1:
        return None
    change = f"fell by {percent:.2f} %" if percent >= 0 else f"rose by {-percent:.2f} %"
    return (
        f"note: the training loss {change} in {len(losses)} epochs: try another --lr, or scale "
        "the targets to about 1"
    )


def _weights(run: Run) -> str:
    """Return a text on the weights of the test score, if a best checkpoint may have others."""
    if run.record.best is None:
        return ""
    kind = "weights" if run.record.configuration.get("ema") is None else "averaged weights"
    return f" ({kind} of epoch {run.history[-1]['epoch']:g}, the last)"


def _say_result(record: RunRecord, weights: str) -> None:
    """Print the result, and whether it is as expected if there is an expectation."""
    test, expected = record.judged_by.of("test"), record.expectation
    if expected and expected["met"] is not None:
        click.secho(expected["text"] + weights, fg="green" if expected["met"] else "yellow")
    elif test not in record.metrics:
        click.echo("the test set was not scored, as requested at the start of the run")
    else:
        why = f"; {_why_not_judged(expected)}" if expected else ""
        click.echo(f"{name_words(test)} {record.metrics[test]:.4f}{weights}{why}")


def _why_not_judged(expected: Mapping[str, Any]) -> str:
    return f"{name_words(expected['metric'])} was not scored, expected {expected['text']}"


def _failure(run: Run, *, verify: bool) -> TarmacError | None:
    record = run.record
    if record.status == "interrupted":
        return Interrupted(
            "interrupted; the state is saved",
            hint=f"Resume it: tarmac train --resume {quoted(run.path)}",
        )
    if not verify or (record.expectation and record.expectation["met"]):
        return None
    if record.expectation is None:
        return TarmacError("there is no expectation for this data")
    if record.expectation["met"] is None:
        return TarmacError(_why_not_judged(record.expectation))
    return TarmacError(str(record.expectation["text"]))
