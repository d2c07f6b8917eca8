"""``tarmac check --on``: a check of a cluster's nodes, instead of this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.errors import RequestError
from tarmac.files import expanded


def check_nodes(
    on: str | None,
    profile: str | None,
    patience_s: float,
    *,
    images: Sequence[str] = (),
    as_json: bool,
) -> int:
    """Check a cluster's nodes, print the findings, and return the exit code.

    Args:
        on: Executor whose nodes to check, ``slurm`` or ``kubernetes``. None: the profile or the
            other settings decide.
        profile: Name of a profile in the user's settings. None: no profile.
        patience_s: Seconds to wait for nodes, above 0.
        images: Image that nodes run, on Kubernetes only; at most one.
        as_json: Whether to print JSON only.

    Raises:
        RequestError: The nodes cannot be checked.
    """
    from tarmac.cli.places import chosen
    from tarmac.jobs import find_executor

    if not patience_s > 0:
        raise RequestError(f"timeout is {patience_s:g}, expected above 0 seconds")
    settings = chosen(on, profile)
    if settings.on not in ("slurm", "kubernetes"):
        raise RequestError(
            f"profile {profile!r} is for {settings.on}, but nodes can be checked only on Slurm "
            "and Kubernetes",
            hint="Choose a profile for slurm or kubernetes, or use --on slurm or --on kubernetes.",
        )
    model = find_executor(settings.on).options
    assert model is not None
    options = model.model_validate(settings.options.get(settings.on, {})).model_dump()
    if settings.on == "kubernetes":
        return _check_kubernetes(options, patience_s, images=images, as_json=as_json)
    if images:
        raise RequestError(
            "--on slurm checks the nodes themselves and takes no --image",
            hint="Leave it out: tarmac check --on slurm",
        )
    return _check_slurm(options, patience_s, as_json=as_json)


def _check_slurm(options: Mapping[str, Any], patience_s: float, *, as_json: bool) -> int:
    from tarmac.cli.views.nodes import print_nodes
    from tarmac.slurm import Shape, SlurmCommands, job_variables, survey_nodes

    shape = Shape(
        **{name: options[name] for name in ("partition", "account", "qos", "constraint")},
        reservation=options["reservation"],
        setup=options["setup"],
        extra=options["sbatch"],
    )
    findings = survey_nodes(
        SlurmCommands(os.environ),
        Path.cwd(),
        python=sys.executable,
        variables=job_variables(os.environ),
        shape=shape,
        patience_s=patience_s,
    )
    return print_nodes(findings, as_json=as_json)


def _check_kubernetes(
    options: Mapping[str, Any], patience_s: float, *, images: Sequence[str], as_json: bool
) -> int:
    from tarmac.cli.views.cluster_nodes import print_cluster_nodes
    from tarmac.kubernetes import Look, connect, survey_cluster

    if len(images) > 1:
        raise RequestError(
            f"--on kubernetes takes one --image, but {len(images)} were given",
            hint="Name one that has Tarmac: --image IMAGE",
        )
    image = next(iter(images), "") or options["check_image"] or options["image"]
    if not image:
        raise RequestError(
            "no image is named, but Kubernetes needs one",
            hint="Name one that has Tarmac: --image IMAGE, or check_image below [kubernetes] of "
            "the settings.",
        )
    look = Look(
        image=image,
        tolerations=[
            {name: value for name, value in toleration.items() if value}
            for toleration in options["tolerations"]
        ],
        pull_secrets=options["image_pull_secrets"],
        restricted=options["pod_security"] == "restricted",
        **{
            name: options[name]
            for name in (
                *("python", "queue", "node_selector", "gpu_resource"),
                *("priority_class", "service_account"),
            )
        },
    )
    with connect(
        kubeconfig=expanded(options["kubeconfig"]) if options["kubeconfig"] else None,
        context=options["context"] or None,
        namespace=options["namespace"] or None,
        # A single request may not take longer than the whole check.
        patience_s=min(patience_s, 30.0),
    ) as cluster:
        findings = survey_cluster(cluster, look, patience_s=patience_s)
        return print_cluster_nodes(findings, cluster.title, as_json=as_json)
