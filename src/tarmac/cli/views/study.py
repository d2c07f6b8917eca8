"""The result of a study, as text and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tarmac import wording
from tarmac.runs import name_words
from tarmac.studies import by_generation, summarize, train_caution, train_line

if TYPE_CHECKING:
    from tarmac.studies import Study, Winner


def result_of(study: Study) -> dict[str, Any]:
    """Return the result of a study as JSON values."""
    study.ledger.refresh()
    record = study.record
    return {
        "path": str(study.path),
        "name": record.name,
        "status": study.status,
        "why_ended": record.why_ended,
        "elapsed_s": record.elapsed_s,
        "request": record.request,
        "settings": record.settings,
        "space": record.space,
        "size": study.space.size,
        "totals": dataclasses.asdict(summarize(study)),
        "generations": [dataclasses.asdict(group) for group in by_generation(study)],
        "best": None if record.best is None else best_of(study, record.best),
        "front": [study.row(study.ledger.trials[number]) for number in record.front],
        "error": record.error,
    }


def best_of(study: Study, best: Winner) -> dict[str, Any]:
    """Return a winner as JSON values, with the command that trains it; null if that is unsafe."""
    is_safe = train_caution(study) is None
    return best.model_dump() | {"command": train_line(study, best) if is_safe else None}


def print_best(study: Study, best: Winner, front: Sequence[int]) -> None:
    """Print the winner, its scores, and the command that trains it.

    Args:
        study: Study that the winner belongs to.
        best: The winner, or the best so far.
        front: Numbers of the trials that no trial beats in all of several objectives.
    """
    values = ", ".join(f"{name} {number_text(value)}" for name, value in best.values.items())
    click.secho(
        f"best: network {best.number}, {values} after {wording.counted(best.epochs, 'epoch')}",
        fg="green",
        bold=True,
    )
    if best.confirmed:
        shown = ", ".join(map(number_text, best.confirmed))
        click.echo(f"  from other seeds {shown}, the best mean of the best {study.request.confirm}")
    for name, value in best.settings.items():
        click.echo(f"  {name} = {value}")
    judged = study.record.judged_by
    test = best.tested(judged)
    if test is not None:
        click.echo(
            f"retrained on all training data: "
            f"{name_words(judged.of('test'))} {wording.number_text(test)}  "
            f"({wording.in_one_line(str(study.path / (best.run or '')))})"
        )
    if len(study.maximize) > 1:
        click.echo(
            f"{wording.counted(len(front), 'network')} that no other beats in every objective:"
        )
        for number in front:
            trial = study.ledger.trials[number]
            shown = "  ".join(
                f"{name} {number_text(value)}"
                for name, value in zip(study.request.objective, trial.values, strict=True)
            )
            made = ", ".join(f"{name}={value}" for name, value in trial.params.items())
            click.echo(f"  {number:>4}  {shown}  {made}")
    click.echo(f"train it again: {train_line(study, best)}")
    if (caution := train_caution(study)) is not None:
        click.secho(f"  {caution}", fg="yellow")
    click.echo(wording.in_one_line(f"study {study.path}"))


def number_text(value: float | None) -> str:
    """Return a number as text: whole numbers without decimals, others with four."""
    if value is None:
        return ""
    return wording.number_text(
        value, digits=0 if float(value).is_integer() and abs(value) > 1 else 4
    )
