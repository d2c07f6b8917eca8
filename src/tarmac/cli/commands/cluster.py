"""``tarmac cluster``: parse, call."""

from __future__ import annotations

import click
import cloup

from tarmac.cli.options import Group, examples, option


@click.group(
    "cluster",
    cls=Group,
    epilog=examples(
        "sudo tarmac cluster try slurm",
        "sudo tarmac cluster try slurm -- tarmac run --on slurm job.yaml",
        "tarmac cluster init kubernetes --namespace team-a --group researchers",
    ),
)
def command() -> None:
    """Start a test cluster on this machine, or prepare an existing cluster."""


@command.command(
    "try",
    epilog=examples(
        "sudo tarmac cluster try slurm",
        "sudo tarmac cluster try slurm -- sinfo",
        "sudo tarmac cluster try slurm --accounting -- tarmac run --on slurm job.yaml",
    ),
)
@cloup.argument("engine", type=click.Choice(["slurm"]), help="Cluster to start.")
@cloup.argument(
    "words",
    metavar="[-- COMMAND]",
    nargs=-1,
    type=click.UNPROCESSED,
    help="Command to run with access to the cluster. Default: your shell.",
)
@option("--accounting", is_flag=True, help="Keep accounts with slurmdbd, MariaDB and MUNGE.")
def _try(engine: str, words: tuple[str, ...], accounting: bool) -> int:  # noqa: ARG001 - the only one
    """Start a Slurm of two nodes on this machine, in a temporary directory, until COMMAND ends.

    COMMAND is your shell by default. SLURM_CONF points sbatch, squeue and tarmac to the cluster.
    When COMMAND ends, all jobs and daemons of the cluster end. Each node has two fake GPUs,
    on which nothing computes. The command needs root and Debian's slurm-wlm. It neither reads nor
    changes /etc/slurm. The exit code is that of COMMAND.
    """
    from tarmac.testing.slurm import try_slurm

    return try_slurm(words, accounting=accounting, say=lambda line: click.echo(line, err=True))


@command.command(
    "init",
    epilog=examples(
        "tarmac cluster init kubernetes --namespace team-a --group researchers",
        "tarmac cluster init kubernetes --namespace team-a --user me | kubectl apply -f -",
        "tarmac cluster init kubernetes --service-account runner --volume runs --size 1Ti",
        "tarmac cluster init kubernetes --user me --check-daemonset registry.example/tarmac:1",
    ),
)
@cloup.argument("engine", type=click.Choice(["kubernetes"]), help="Cluster to prepare.")
@option(
    "--namespace",
    metavar="NAME",
    default="default",
    show_default=True,
    help="Namespace in which jobs may run.",
)
@option(
    "--user",
    metavar="NAME",
    default="",
    help="User who may run jobs; `kubectl auth whoami` shows the name.",
)
@option("--group", metavar="NAME", default="", help="Group whose members may run jobs.")
@option(
    "--service-account",
    metavar="NAME",
    default="",
    help="Create a service account that may run jobs, for runners in the cluster.",
)
@option("--volume", metavar="NAME", default="", help="Name of a claim that all nodes can write to.")
@option("--size", metavar="SIZE", default="100Gi", show_default=True, help="Size of the claim.")
@option(
    "--storage-class",
    metavar="NAME",
    default="",
    help="Storage class of the claim. Default: the cluster's.",
)
@option(
    "--check-daemonset",
    metavar="IMAGE",
    default="",
    help="Run tarmac check on each node once an hour, in an image that has Tarmac.",
)
@option(
    "--problem-detector",
    is_flag=True,
    help="Deploy node-problem-detector, which reports errors in the nodes' kernel logs "
    "to the cluster.",
)
def _init(
    *,
    engine: str,  # noqa: ARG001 - the only one
    namespace: str,
    user: str,
    group: str,
    service_account: str,
    volume: str,
    size: str,
    storage_class: str,
    check_daemonset: str,
    problem_detector: bool,
) -> None:
    """Print the manifests that an administrator applies once, so that others can run jobs.

    The command neither asks nor changes the cluster: read the output, then give it to
    `kubectl apply -f -`. The output is a Role with the rights that jobs need in one namespace, for
    the named users and groups, and whatever else the options ask for.
    """
    from tarmac.kubernetes import as_yaml, check_daemon_set, problem_detector_set, setup

    manifests = setup(
        namespace,
        service_account=service_account,
        user=user,
        group=group,
        volume_claim=volume,
        size=size,
        storage_class=storage_class,
    )
    if check_daemonset:
        manifests.append(check_daemon_set(namespace, check_daemonset))
    if problem_detector:
        manifests += problem_detector_set()
    click.echo(as_yaml(manifests), nl=False)
