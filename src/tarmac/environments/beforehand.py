"""What is known to be wrong with an environment before it is built."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.distribution import require
from tarmac.environments.conda import CondaSpec, existing_prefix
from tarmac.environments.projects import ProjectSpec, read_pyproject, read_script
from tarmac.environments.requirements import read_requirements
from tarmac.environments.venvs import VenvSpec, pixi_spec
from tarmac.files import placed

if TYPE_CHECKING:
    from pathlib import Path


def refuse_unreadable(
    spec: VenvSpec | ProjectSpec | CondaSpec, base: Path, *, is_here: bool
) -> None:
    """Raise a RequestError where what says what an environment holds is not there, or of no form.

    Args:
        spec: What is to be built, or is to exist.
        base: What its paths start from.
        is_here: Whether it is built, or is to exist, on this machine; on another, files may be
            that are not here.
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
            # Its readers take long to import, which every other job would wait for.
            from tarmac.environments.conda.files import read_conda_file  # noqa: PLC0415

            read_conda_file(path)
        if is_here and spec.tool is None:
            require("rattler")
    if is_here and (spec.name or spec.prefix):
        existing_prefix(dataclasses.replace(spec, file=None), base)
