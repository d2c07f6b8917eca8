"""Checks of ``tarmac train`` before it imports a framework: options that exclude each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from tarmac.cli.places import chosen
from tarmac.cli.training_elsewhere import given_options
from tarmac.errors import RequestError, quoted

if TYPE_CHECKING:
    from tarmac.settings import Settings

_NODE_OPTIONS = ("nodes", "gpus_per_node", "cpus_per_node")

# Options allowed with --resume; a run's run.json has all others.
RESUME_OPTIONS = {
    "workload",
    "list_them",
    "output",
    "resumed",
    "as_json",
    "devices",
    "verbose",
    "verify",
    "no_check",
    "on",
    "profile",
    *_NODE_OPTIONS,
}

# Options allowed with --from-checkpoint.
_EXTEND_OPTIONS = (RESUME_OPTIONS - {"resumed"}) | {"from_checkpoint", "epochs"}

# A self-test chooses sizes, devices and directory itself.
SELFTEST_OPTIONS = {"workload", "settings", "selftest", "as_json"}
SUMMARY_OPTIONS = {"workload", "settings", "summary", "as_json"}


def cluster_of(ctx: click.Context, on: str | None, profile: str | None) -> Settings | None:
    """Return the requested cluster; None for a training on this machine."""
    if on is not None or profile is not None:
        place = chosen(on, profile)
        if place.on != "local":
            return place
    for parameter in given_options(ctx):
        if parameter.name in _NODE_OPTIONS:
            raise RequestError(
                f"{parameter.opts[0]} is for a training on a cluster",
                hint="Choose a cluster: --on slurm. On this machine: --devices.",
            )
    return None


def check_beginning(
    ctx: click.Context, workload: str | None, resumed: str | None, from_checkpoint: str | None
) -> None:
    """Refuse a training that names nothing to train, or changes settings that a run has fixed."""
    if ctx.params["verify"] and ctx.params["steps"] is not None:
        raise RequestError(
            "--verify needs a whole training, but --steps runs only a trial",
            hint="Leave one of them out.",
        )
    if workload is None and resumed is None and from_checkpoint is None:
        from tarmac.workloads import workload_names

        raise RequestError(
            "no workload is named", hint=f"Name one: tarmac train {workload_names()[0]}"
        )
    if resumed is not None:
        more = f"tarmac train --from-checkpoint {quoted(resumed)} --epochs"
        refuse_changes(
            ctx,
            RESUME_OPTIONS,
            "a resumed run",
            {"epochs": f"Train it for more as a new run: {more} {ctx.params['epochs']}"},
        )
    if from_checkpoint is not None:
        refuse_changes(ctx, _EXTEND_OPTIONS, "a run that continues from a checkpoint")
        if ctx.params["epochs"] is None:
            raise RequestError(
                "--from-checkpoint needs --epochs",
                hint="Give the total number, with the epochs already done: --epochs 40",
            )


def refuse_changes(
    ctx: click.Context,
    changeable: Collection[str],
    what: str,
    hints: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse options on the command line that are not among the changeable ones.

    Args:
        ctx: Context of ``tarmac train``.
        changeable: Names of the parameters that may be on the line.
        what: Kind of run that fixes the others, for the message: ``a resumed run``.
        hints: Hints for some parameters, by their names. Default: none.

    Raises:
        RequestError: Another option is on the command line.
    """
    for parameter in given_options(ctx):
        if parameter.name not in changeable:
            raise RequestError(
                f"{parameter.opts[0]} cannot be changed in {what}",
                hint=hints.get(parameter.name or "", "Leave it out, or start a new run."),
            )


def once_each(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the pairs of ``--set`` by their keys.

    Raises:
        RequestError: A key occurs twice.
    """
    values: dict[str, str] = {}
    for key, value in settings:
        if key in values:
            raise RequestError(f"--set {key} is given twice: {values[key]!r} and {value!r}")
        values[key] = value
    return values
