"""``tarmac cluster``: parse, call."""

from __future__ import annotations

import click
import cloup

from tarmac.cli.options import Group, examples, option

__all__ = ["command"]


@click.group(
    "cluster",
    cls=Group,
    epilog=examples(
        "sudo tarmac cluster try slurm",
        "sudo tarmac cluster try slurm -- tarmac run --on slurm job.yaml",
    ),
)
def command() -> None:
    """Try a cluster on this machine, where there is none."""


@command.command(
    "try",
    epilog=examples(
        "sudo tarmac cluster try slurm",
        "sudo tarmac cluster try slurm -- sinfo",
        "sudo tarmac cluster try slurm --accounting -- tarmac run --on slurm job.yaml",
    ),
)
@cloup.argument("engine", type=click.Choice(["slurm"]), help="What to start.")
@cloup.argument(
    "words",
    metavar="[-- COMMAND]",
    nargs=-1,
    type=click.UNPROCESSED,
    help="What to run in its sight; by default your shell.",
)
@option("--accounting", is_flag=True, help="Keep accounts, by slurmdbd, MariaDB and MUNGE.")
def _try(engine: str, words: tuple[str, ...], accounting: bool) -> int:  # noqa: ARG001 - the only one
    """Start a Slurm of two nodes on this machine, in a temporary directory, and end it.

    It runs for as long as COMMAND or your shell does, in which SLURM_CONF leads sbatch, squeue and
    tarmac to it; then all of its jobs and daemons are ended. Its nodes have two GPUs each, which
    are pretended: nothing computes on them. Root and Debian's slurm-wlm are needed; what is
    configured in /etc/slurm is neither read nor changed. The exit code is that of COMMAND.
    """
    from tarmac.slurm import try_slurm

    return try_slurm(words, accounting=accounting, say=lambda line: click.echo(line, err=True))
