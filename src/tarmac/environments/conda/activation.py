"""The environment variables that activating a conda environment sets."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tarmac.errors import TarmacError
from tarmac.files import parse_json

_LIMIT_S = 60

# Variables that a shell sets by itself.
_OF_SHELLS = ("_", "PWD", "OLDPWD", "SHLVL")


def _variables_of(prefix: Path) -> dict[str, str]:
    """Return the variables in the JSON files of an environment's packages and of its settings."""
    variables: dict[str, str] = {}
    files = sorted(prefix.glob("etc/conda/env_vars.d/*.json"))
    for file in (*files, prefix / "conda-meta" / "state"):
        try:
            content = parse_json(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if file.name == "state" and isinstance(content, dict):
            content = content.get("env_vars")
        if isinstance(content, dict):
            variables |= {str(name): str(value) for name, value in content.items()}
    return variables


def activated(prefix: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that activating an environment sets: its own, and its packages'.

    Packages set variables in scripts, ``etc/conda/activate.d/*.sh``, which run in a shell.

    Args:
        prefix: Directory of the conda environment, with its ``bin``.
        environment: Environment variables before activation, such as ``os.environ``.

    Raises:
        TarmacError: A script ends the shell, or runs longer than 60 s. As with conda, the exit code
            of its last command does not matter.
    """
    own = {
        "CONDA_DEFAULT_ENV": prefix.name,
        **_variables_of(prefix),
        "CONDA_PREFIX": str(prefix),
        "CONDA_SHLVL": "1",
        "PATH": f"{prefix / 'bin'}:{environment.get('PATH', os.defpath)}",
    }
    scripts = sorted(prefix.glob("etc/conda/activate.d/*.sh"))
    if not scripts:
        return own
    before = {**environment, **own}
    after = _run(scripts, before)
    return own | {
        name: value
        for name, value in after.items()
        if name not in _OF_SHELLS and before.get(name) != value
    }


def _run(scripts: list[Path], variables: Mapping[str, str]) -> dict[str, str]:
    shell = shutil.which("bash") or "/bin/sh"
    # Keeps the output of the scripts apart from the variables, which go to descriptor 3.
    program = 'exec 3>&1 >&2; for script; do . "$script"; done; exec env -0 >&3'
    try:
        done = subprocess.run(
            [shell, "-c", program, shell, *map(str, scripts)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            env=dict(variables),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TarmacError(
            f"environment: {scripts[0].parent}: its scripts do not end in {_LIMIT_S} s"
        ) from error
    if done.returncode != 0:
        printed = os.fsdecode(done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
        raise TarmacError(
            f"environment: {scripts[0].parent}: a script ends the shell: {printed[-1]}"
        )
    pairs = (os.fsdecode(entry).partition("=") for entry in done.stdout.split(b"\0") if entry)
    return {name: value for name, _, value in pairs}
