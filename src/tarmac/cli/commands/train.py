"""``tarmac train``: parse, call, show progress, say the verdict."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.lead_process import speaks_for_all
from tarmac.errors import PeerFailed, RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.runs import Run

__all__ = ["command"]


@click.command("train", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("workload", required=False)
@click.option("--list", "list_them", is_flag=True, help="List the workloads and their settings.")
@click.option("--epochs", type=int, show_default="the workload's", help="Passes over the data.")
@click.option(
    "--batch-size",
    type=int,
    show_default="the workload's",
    help="Samples per step, of all devices together.",
)
@click.option("--batch-size-per-device", type=int, help="Samples per step of each device.")
@click.option("--lr", "learning_rate", type=float, show_default="the workload's")
@click.option(
    "--scale-lr",
    default="none",
    show_default=True,
    help="Let the rate follow the batch size: none, linear or sqrt.",
)
@click.option("--train-size", type=int, show_default="all", help="Train on the first N samples.")
@click.option(
    "--validation-size",
    type=int,
    default=0,
    show_default=True,
    help="Hold out the last N training samples and score them every epoch.",
)
@click.option(
    "--patience",
    type=int,
    help="Stop once the validation loss has not fallen for N epochs; needs --validation-size.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--devices",
    "--device",
    "devices",
    default="auto",
    show_default=True,
    help="auto, all, a number of GPUs, their indices (0,2), cpu, or cpu:N for N replicas on it.",
)
@click.option(
    "--strategy",
    default="auto",
    show_default=True,
    help="How several devices are used: auto, single, ddp or towers.",
)
@click.option(
    "--feed",
    default="auto",
    show_default=True,
    help="How samples get to a device: auto, resident, prefetch or direct.",
)
@click.option(
    "--accumulate",
    type=int,
    default=1,
    show_default=True,
    help="Parts of a device's share of a batch, computed one after another to save memory.",
)
@click.option(
    "--sync-batchnorm",
    is_flag=True,
    help="Take batch normalisation's statistics over all devices.",
)
@click.option("--precision", default="auto", show_default=True, help="auto, fp32, bf16 or fp64.")
@click.option("--compile", "compile_", default="auto", show_default=True, help="auto, on or off.")
@click.option("--deterministic", is_flag=True, help="The same bits every time on one device.")
@click.option(
    "--checkpoint-every",
    type=int,
    default=1,
    show_default=True,
    help="Epochs from one checkpoint to the next.",
)
@click.option(
    "--max-restarts",
    type=int,
    default=3,
    show_default=True,
    help="How often ddp starts again when it has lost a worker.",
)
@click.option(
    "--hang-timeout",
    "hang_timeout_s",
    type=float,
    default=300.0,
    show_default=True,
    help="Seconds without a step after which a rank is taken for hung.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting of the workload; may be repeated. --list shows them.",
)
@click.option(
    "--output",
    type=click.Path(),
    show_default="TARMAC_RUNS or ./runs",
    help="Where runs are made; a URI, s3://bucket/prefix, gets a copy.",
)
@click.option("--resume", "resumed", metavar="RUN", help="Go on with a run that was stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and only that.")
@click.option("--verbose", is_flag=True, help="Say more on why things are done as they are.")
@click.option("--no-check", is_flag=True, help="Do not look at the devices first.")
@click.option("--verify", is_flag=True, help="Exit with 1 when the result is not as expected.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    workload: str | None,
    list_them: bool,
    settings: Sequence[str],
    output: str | None,
    resumed: str | None,
    as_json: bool,
    verbose: bool,
    verify: bool,
    no_check: bool,
    compile_: str,
    **options: Any,
) -> None:
    """Train WORKLOAD: a name from --list, or a file and a name in it (my_model.py:workload)."""
    if list_them:
        _list(as_json=as_json)
        return
    if workload is None and resumed is None:
        from tarmac.workloads import workload_names

        raise RequestError(
            "no workload is named", hint=f"Name one: tarmac train {workload_names()[0]}"
        )
    if resumed is not None:
        _refuse_changes(ctx)
    from tarmac.cli.views.training import reporter_for
    from tarmac.training import resume, train
    from tarmac.workloads import find_workload

    if verify and workload is not None and find_workload(workload).expectation is None:
        raise RequestError(f"{workload} has no expectation to verify")
    is_quiet = as_json or not speaks_for_all()
    with reporter_for(quiet=is_quiet, verbose=verbose) as shown:
        reporter = shown
        if speaks_for_all() and not no_check:
            from tarmac.cli.preflight import checked

            reporter = checked(shown, quiet=is_quiet)
        if resumed is not None:
            run = resume(resumed, output=output, workload=workload, reporter=reporter)
        else:
            assert workload is not None
            run = train(
                workload,
                output=output,
                reporter=reporter,
                compile=compile_,
                settings=_parse(settings),
                **options,
            )
    _conclude(run, as_json=as_json, verify=verify)


# What may be said with --resume; everything else a run has in its run.json.
_RESUME_OPTIONS = {
    "workload",
    "list_them",
    "output",
    "resumed",
    "as_json",
    "verbose",
    "verify",
    "no_check",
}


def _refuse_changes(ctx: click.Context) -> None:
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(str(parameter.name))
        given = source is not None and source is click.core.ParameterSource.COMMANDLINE
        if given and parameter.name not in _RESUME_OPTIONS:
            raise RequestError(
                f"{parameter.opts[0]} cannot be changed in a resumed run",
                hint="Leave it out, or start a new run.",
            )


def _parse(settings: Sequence[str]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for text in settings:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise RequestError(f"--set {text!r} is not of the form KEY=VALUE")
        if key in parsed:
            raise RequestError(f"--set {key} is given twice: {parsed[key]!r} and {value!r}")
        parsed[key] = value
    return parsed


def _conclude(run: Run, *, as_json: bool, verify: bool) -> None:
    failure = _failure(run, verify=verify)
    if not speaks_for_all():
        if failure is not None:
            raise PeerFailed(failure.message)
        return
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
        if record.stopped_early is not None:
            last, asked = run.history[-1]["epoch"], record.configuration["epochs"]
            click.echo(f"stopped after epoch {last:g} of {asked}: {record.stopped_early}")
        if "test_accuracy" not in record.metrics:
            click.echo("the test set was not scored, as asked when the run was begun")
        elif record.expectation:
            met, text = record.expectation["met"], record.expectation["text"]
            click.secho(text, fg="green" if met else "yellow")
        else:
            accuracy = record.metrics["test_accuracy"]
            click.echo(f"test accuracy {accuracy:.4f}; no expectation is known for this data")
        click.echo(f"run {run.path}")
    if failure is not None:
        raise failure


def _failure(run: Run, *, verify: bool) -> TarmacError | None:
    record = run.record
    if record.status == "interrupted":
        return TarmacError(
            "interrupted; the state is saved", hint=f"Go on: tarmac train --resume {run.path}"
        )
    if not verify or (record.expectation and record.expectation["met"]):
        return None
    if record.expectation is None:
        return TarmacError("there is no expectation for this data")
    return TarmacError(str(record.expectation["text"]))


def _list(*, as_json: bool) -> None:
    from tarmac.training import settings_of
    from tarmac.workloads import find_workload, workload_names

    found = [find_workload(name) for name in workload_names()]
    if as_json:
        rows = [
            {
                "name": workload.name,
                "summary": workload.summary,
                "dataset": workload.dataset if isinstance(workload.dataset, str) else None,
                "epochs": workload.recipe.epochs,
                "batch_size": workload.recipe.batch_size,
                "learning_rate": workload.recipe.optimizer.learning_rate,
                "expectation": str(workload.expectation) if workload.expectation else None,
                "settings": settings_of(workload),
            }
            for workload in found
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(len(workload.name) for workload in found)
    for workload in found:
        recipe = workload.recipe
        click.echo(click.style(f"{workload.name:<{width}}", bold=True) + f"  {workload.summary}")
        expected = f"accuracy {workload.expectation}" if workload.expectation else "nothing known"
        indent = " " * (width + 2)
        click.echo(
            f"{indent}expected: {expected} after {recipe.epochs} epochs of batches of "
            f"{recipe.batch_size}"
        )
        settings = ", ".join(f"{key}={value}" for key, value in settings_of(workload).items())
        click.echo(click.wrap_text(f"--set {settings}", 99, indent, indent + "      "))
