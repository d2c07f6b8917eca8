"""Check an environment's definition before the environment is built."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tarmac.distribution import require
from tarmac.environments.conda import CondaSpec, existing_prefix
from tarmac.environments.projects import ProjectSpec, read_pyproject, read_script
from tarmac.environments.requirements import read_requirements
from tarmac.environments.venvs import VenvSpec, pixi_spec
from tarmac.files import placed


def refuse_unreadable(
    spec: VenvSpec | ProjectSpec | CondaSpec, base: Path, *, is_here: bool
) -> None:
    """Raise a RequestError if a file that defines an environment is missing or invalid.

    Args:
        spec: Environment to build, or conda environment that must exist.
        base: Directory that relative paths start from.
        is_here: Whether the environment is built or must exist on this machine. If False, missing
            files are accepted, because another machine may have them.
    """
    if isinstance(spec, VenvSpec):
        if is_here:
            read_requirements((*spec.before, *spec.requirements), base)
    elif isinstance(spec, ProjectSpec):
        path = placed(spec.path, base)
        if not (is_here or path.exists()):
            return
        of_pixi = pixi_spec(spec, base)
        if of_pixi is not None:
            _refuse_conda(of_pixi, base, is_here=is_here)
        elif path.suffix == ".py":
            read_script(path)
        else:
            read_pyproject(spec, path)
    else:
        _refuse_conda(spec, base, is_here=is_here)


def _refuse_conda(spec: CondaSpec, base: Path, *, is_here: bool) -> None:
    if spec.file is not None:
        path = placed(spec.file, base)
        if is_here or path.exists():
            # A slow import, which would delay all jobs without a conda file.
            from tarmac.environments.conda.files import read_conda_file  # noqa: PLC0415

            read_conda_file(path)
        if is_here and spec.tool is None:
            require("rattler")
    if is_here and (spec.name or spec.prefix):
        existing_prefix(dataclasses.replace(spec, file=None), base)
