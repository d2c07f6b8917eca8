"""``tarmac check --on``: a cluster's nodes looked at, instead of this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tarmac.errors import RequestError

__all__ = ["check_nodes"]


def check_nodes(on: str | None, profile: str | None, patience_s: float, *, as_json: bool) -> int:
    """Look at a cluster's nodes, print what they have, and return the exit status.

    Args:
        on: Which cluster.
        profile: Or which of the settings' profiles.
        patience_s: How long to wait for nodes, in seconds.
        as_json: Print JSON, and only that.

    Raises:
        RequestError: Its nodes cannot be looked at.
    """
    from tarmac.cli.places import chosen
    from tarmac.cli.views.nodes import print_nodes
    from tarmac.jobs import find_executor
    from tarmac.slurm import Shape, SlurmCommands, job_variables, survey_nodes

    settings = chosen(on, profile)
    if settings.on != "slurm":
        raise RequestError(
            f"profile {profile!r} is of {settings.on}, whose nodes cannot be looked at",
            hint="Choose one of slurm, or say --on slurm.",
        )
    model = find_executor("slurm").options
    assert model is not None
    options = model.model_validate(settings.options.get("slurm", {})).model_dump()
    shape = Shape(
        **{name: options[name] for name in ("partition", "account", "qos", "constraint")},
        reservation=options["reservation"],
        setup=options["setup"],
        extra=options["sbatch"],
    )
    found = survey_nodes(
        SlurmCommands(os.environ),
        Path.cwd(),
        python=sys.executable,
        variables=job_variables(os.environ),
        shape=shape,
        patience_s=patience_s,
    )
    return print_nodes(found, as_json=as_json)
