"""``tarmac predict``: parse, run the model, write its predictions."""

from __future__ import annotations

from pathlib import Path

import click
import cloup

from tarmac.cli.completion import complete_files, complete_trainings
from tarmac.cli.options import (
    Filename,
    checkpoint_option,
    count_option,
    device_option,
    examples,
    option,
    workload_option,
)
from tarmac.wording import in_one_line


@cloup.command(
    "predict",
    epilog=examples(
        "tarmac predict latest samples.csv",
        "tarmac predict latest photos/ --output classes.csv",
        "tarmac predict my-run samples.npy --output logits.npy --device cpu",
    ),
)
@cloup.argument(
    "run_name",
    metavar="RUN",
    shell_complete=complete_trainings,
    help='Directory of the run, its name, the beginning of its name or id, or "latest".',
)
@cloup.argument(
    "source",
    metavar="INPUT",
    type=Filename(path_type=Path),
    shell_complete=complete_files,
    help="Samples in the form of the training data: .csv, .json, .jsonl, .npy, .npz, an "
    "image, or a folder of images.",
)
@option(
    "--output",
    "target",
    type=Filename(path_type=Path, dir_okay=False),
    metavar="FILE",
    show_default="JSON lines on standard output",
    help="File to write, completely or not at all: .jsonl, .csv, .npy or .npz.",
)
@device_option()
@checkpoint_option()
@workload_option()
@count_option("--batch-size", default=256, show_default=True, help="Samples per batch.")
def command(
    run_name: str,
    source: Path,
    target: Path | None,
    device: str,
    checkpoint: str,
    workload: str | None,
    batch_size: int,
) -> None:
    """Predict samples with a run's model, and write a line for each.

    A classifier's line has the class and its probability.
    """
    from tarmac.errors import RequestError
    from tarmac.inference import (
        check_target,
        json_lines,
        open_trained,
        predict_each,
        read_samples,
        write_predictions,
    )

    if batch_size < 1:
        raise RequestError(f"--batch-size is {batch_size}, expected at least 1")
    if target is not None:
        check_target(target)
    trained = open_trained(
        run_name,
        device=device,
        workload=workload,
        checkpoint=checkpoint,  # type: ignore[arg-type]  # checked by Choice
    )
    samples = read_samples(source, trained.parts, batch_size)
    predictions = predict_each(trained, samples, str(source))
    if target is None:
        for line in json_lines(predictions):
            click.echo(line)
        return
    count = write_predictions(target, predictions)
    click.echo(in_one_line(f"{count:,} predictions {target}"))
