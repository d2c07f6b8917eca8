"""Options of ``tarmac check`` that exclude each other."""

from __future__ import annotations

import click

from tarmac.errors import RequestError

# Options allowed with --on, --read, --race and --ranks all; all others are for other checks.
_NODES_OPTIONS = frozenset({"on", "profile", "timeout_s", "as_json", "images"})
_READ_OPTIONS = frozenset({"log", "as_json", "names"})
_RACE_OPTIONS = frozenset({"is_race", "pythons", "images", "devices", "timeout_s", "as_json"})
_RANKS_OPTIONS = frozenset(
    {"ranks", "pythons", "devices", "require", "timeout_s", "form", "as_json", "brief", "page"}
    | {"names", "verbose"}
)


def _given_beside(ctx: click.Context, options: frozenset[str]) -> str | None:
    """Return the first parameter on the command line outside of some options; None without one."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(str(parameter.name))
        is_given = source is click.core.ParameterSource.COMMANDLINE
        if is_given and parameter.name not in options and ctx.params[str(parameter.name)]:
            return parameter.opts[0] if isinstance(parameter, click.Option) else "a framework"
    return None


def refuse_checking(ctx: click.Context) -> None:
    """Refuse options of a check together with ``--read``.

    Raises:
        RequestError: Such an option was given.
    """
    named = _given_beside(ctx, _READ_OPTIONS)
    if named is not None:
        raise RequestError(
            f"--read does not go with {named}",
            hint="Leave it out: tarmac check --read FILE",
        )


def refuse_beside_race(ctx: click.Context) -> None:
    """Refuse options that a race does not use, together with ``--race``.

    Raises:
        RequestError: Such an option was given.
    """
    named = _given_beside(ctx, _RACE_OPTIONS)
    if named is not None or len(ctx.params["pythons"]) + len(ctx.params["images"]) > 1:
        raise RequestError(
            f"--race does not go with {named or 'several --python or --image'}",
            hint="Use it only with --python or --image, --device, --timeout and --json.",
        )


def refuse_beside_nodes(ctx: click.Context) -> None:
    """Refuse options of a check of this machine together with ``--on``.

    Raises:
        RequestError: Such an option was given.
    """
    named = _given_beside(ctx, _NODES_OPTIONS)
    if named is not None:
        raise RequestError(
            f"--on does not go with {named}",
            hint="Use it only with --profile, --timeout and --json, and on Kubernetes --image. "
            "To check frameworks on Slurm's nodes, run a job: srun tarmac check --ranks all",
        )


def refuse_beside_all_ranks(ctx: click.Context) -> None:
    """Refuse options that do not work with other hosts, together with ``--ranks all``.

    Raises:
        RequestError: Such an option was given.
    """
    named = _given_beside(ctx, _RANKS_OPTIONS)
    if named is not None or len(ctx.params["pythons"]) > 1:
        raise RequestError(
            f"--ranks all does not go with {named or 'several --python'}",
            hint="Use it only with --python, --device, --require, --timeout and options of output.",
        )
