"""``tarmac eval``: parse, score, print the verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from tarmac.cli.completion import complete_datasets, complete_trainings
from tarmac.cli.options import (
    checkpoint_option,
    device_option,
    examples,
    json_option,
    option,
    output_option,
    workload_option,
)
from tarmac.wording import in_one_line, number_text

if TYPE_CHECKING:
    from tarmac.inference import Evaluation


@cloup.command(
    "eval",
    epilog=examples(
        "tarmac eval latest",
        "tarmac eval latest --data fashion-mnist --json",
        "tarmac eval digits-mlp-20261123 --device cpu --verify",
    ),
)
@cloup.argument(
    "run_name",
    metavar="RUN",
    shell_complete=complete_trainings,
    help='Directory of the run, its name, the beginning of its name or id, or "latest". '
    "The newest checkpoint is scored if the run is not completed.",
)
@option(
    "--data",
    "dataset",
    metavar="NAME",
    show_default="the run's own",
    shell_complete=complete_datasets,
    help="Dataset whose test set to score, with the same kind of samples and classes.",
)
@device_option()
@option("--verify", is_flag=True, help="Exit with 1 if the result is not as expected.")
@json_option("Print the scores as JSON, and only that.")
@checkpoint_option()
@workload_option()
@output_option()
def command(
    run_name: str,
    dataset: str | None,
    device: str,
    checkpoint: str,
    workload: str | None,
    verify: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """Score a run's model on its test set or on another one, and compare with the expectation."""
    from tarmac.errors import RequestError, TarmacError
    from tarmac.inference import evaluate

    score = evaluate(
        run_name,
        dataset=dataset,
        device=device,
        output=output,
        workload=workload,
        checkpoint=checkpoint,  # type: ignore[arg-type]  # checked by Choice
    )
    expected = score.expectation
    if as_json:
        click.echo(json.dumps(_as_json(score), indent=2))
    else:
        click.echo(
            f"{in_one_line(score.run.name)} on {score.num_samples:,} test samples of "
            f"{score.dataset}, in {score.precision} on {score.device}"
        )
        width = max(map(len, score.metrics), default=0)
        for name, value in score.metrics.items():
            mark = ""
            if name == f"test_{score.judged_by}":
                mark = f"  what counts, {'more' if score.direction == 'max' else 'less'} is better"
            click.echo(f"  {name:<{width}}  {number_text(value)}{mark}")
        if expected is not None:
            click.secho(expected["text"], fg="green" if expected["met"] else "yellow")
    if verify and expected is None:
        raise RequestError("there is no expectation for these data")
    if verify and expected is not None and not expected["met"]:
        raise TarmacError(str(expected["text"]))


def _as_json(evaluation: Evaluation) -> dict[str, object]:
    return {
        "run": str(evaluation.run.path),
        "weights": str(evaluation.weights),
        "dataset": evaluation.dataset,
        "num_samples": evaluation.num_samples,
        "device": evaluation.device,
        "precision": evaluation.precision,
        "metrics": dict(evaluation.metrics),
        "judged_by": {"metric": evaluation.judged_by, "direction": evaluation.direction},
        "expectation": evaluation.expectation,
    }
