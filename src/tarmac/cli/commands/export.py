"""``tarmac export``: parse, write the model, print how well file and model agree."""

from __future__ import annotations

import json
from pathlib import Path

import click
import cloup

from tarmac.cli.choices import EXPORTS, Choice
from tarmac.cli.completion import complete_trainings
from tarmac.cli.options import (
    Filename,
    checkpoint_option,
    examples,
    json_option,
    option,
    workload_option,
)
from tarmac.wording import in_one_line


@cloup.command(
    "export",
    epilog=examples(
        "tarmac export latest --to onnx",
        "tarmac export latest --to torch --output model.pt2",
        "tarmac export latest --to tensorboard",
    ),
)
@cloup.argument(
    "run_name",
    metavar="RUN",
    shell_complete=complete_trainings,
    help='Directory of the run, its name, the beginning of its name or id, or "latest".',
)
@option(
    "--to",
    "form",
    type=Choice(EXPORTS),
    required=True,
    help="onnx, torch for a program of torch.export, or tensorboard for the graph that "
    "TensorBoard draws.",
)
@option(
    "--output",
    "target",
    type=Filename(path_type=Path, dir_okay=False),
    metavar="FILE",
    show_default="in the run's directory: model.onnx, model.pt2 or events.graph.tfevents",
    help="File to write, completely or not at all.",
)
@checkpoint_option()
@workload_option()
@json_option()
def command(
    run_name: str,
    form: str,
    target: Path | None,
    checkpoint: str,
    workload: str | None,
    as_json: bool,
) -> None:
    """Write a run's model, with its preprocessing, to a file that needs no Tarmac.

    The file must return the same answers as the model for samples of the test set. The graph for
    TensorBoard is only a drawing of the model.
    """
    from tarmac.inference import TOLERANCE, export

    made = export(
        run_name,
        form,  # type: ignore[arg-type]  # checked by Choice
        file=target,
        workload=workload,
        checkpoint=checkpoint,  # type: ignore[arg-type]  # checked by Choice
    )
    if as_json:
        result = {
            "path": str(made.path),
            "format": made.format,
            "inputs": dict(made.inputs),
            "outputs": list(made.outputs),
            "num_samples": made.num_samples,
            "difference": made.difference,
            "tolerance": TOLERANCE,
        }
        click.echo(json.dumps(result, indent=2))
        return
    for name, kind in made.inputs.items():
        click.echo(f"takes    {name}: {kind}")
    click.echo(f"returns  {', '.join(made.outputs)}")
    if made.difference is not None:
        click.echo(
            f"checked  on {made.num_samples} test samples: answers differ by at most "
            f"{made.difference:.1g} of the largest, allowed is {TOLERANCE:g}"
        )
    click.echo(in_one_line(f"{'graph' if form == 'tensorboard' else 'model':<9}{made.path}"))
