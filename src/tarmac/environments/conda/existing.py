"""Find existing environments of conda, mamba and micromamba."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping
from pathlib import Path

from tarmac.errors import RequestError
from tarmac.files import placed

# Usual root directories of conda, mamba and micromamba; ~/.conda lists further environments.
_ROOTS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda", "conda")


@dataclasses.dataclass(frozen=True)
class CondaSpec:
    """A conda environment, to build from a file or to find by name or prefix.

    Attributes:
        file: Path of an ``environment.yml``, an explicit list, or a lock of conda-lock or pixi, to
            build from. With ``name`` or ``prefix``, the existing environment must match it.
        name: Name of an existing environment.
        prefix: Directory of an existing environment.
        tool: Program that builds the environment instead of rattler: ``conda``, ``mamba`` or
            ``micromamba``. It must be on the ``PATH`` of the machine where the task runs.
        environment: Name of the environment in a lock that has several. None: ``default``.
    """

    file: str | None = None
    name: str | None = None
    prefix: str | None = None
    tool: str | None = None
    environment: str | None = None


def existing_prefix(spec: CondaSpec, base: Path) -> Path:
    """Return the directory of an existing environment.

    Args:
        spec: Spec with a name or a prefix.
        base: Directory that a relative prefix and a relative file start from.

    Raises:
        RequestError: The environment does not exist, or differs from the file.
        MissingExtraError: The spec has a file, and rattler is not installed.
    """
    prefix = _find(spec, base)
    if spec.file is not None:
        # A slow import, which would delay the stage in of every task.
        from tarmac.environments.conda.comparing import refuse_difference  # noqa: PLC0415

        refuse_difference(prefix, placed(spec.file, base))
    return prefix


def _find(spec: CondaSpec, base: Path) -> Path:
    if spec.prefix is not None:
        path = placed(spec.prefix, base)
        if not (path / "conda-meta").is_dir():
            raise RequestError(
                f"environment: {path} is not a conda environment: it has no conda-meta"
            )
        return path
    known = _known_prefixes(os.environ)
    of_name = [path for path, name in known.items() if name == spec.name]
    if not of_name:
        names = sorted({*known.values()})
        close = difflib.get_close_matches(spec.name or "", names, n=3) or names[:5]
        raise RequestError(
            f"environment: conda has no environment {spec.name!r} here",
            hint=f"It has {', '.join(close)}" if close else "Name its directory: prefix: PATH",
        )
    if len(of_name) > 1:
        raise RequestError(
            f"environment: several environments are called {spec.name!r}: "
            f"{', '.join(map(str, of_name))}",
            hint="Name its directory: prefix: PATH",
        )
    return of_name[0]


def _known_prefixes(variables: Mapping[str, str]) -> Mapping[Path, str]:
    """Return the names of the environments on this machine, by their directories."""
    home = Path(variables.get("HOME") or "/")
    roots = [Path(variables[n]) for n in ("MAMBA_ROOT_PREFIX", "CONDA_ROOT") if variables.get(n)]
    if program := variables.get("CONDA_EXE"):
        roots.append(Path(program).parents[1])
    roots += [above / name for above in (home, Path("/opt")) for name in _ROOTS]
    names = dict.fromkeys(roots, "base")
    for root in roots:
        names |= {path: path.name for path in sorted((root / "envs").glob("*"))}
    try:
        listed = (home / ".conda" / "environments.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        listed = []
    # conda lists the environments in its root there too.
    names |= {path: path.name for path in map(Path, filter(str.strip, listed)) if path not in names}
    there: dict[Path, tuple[Path, str]] = {}
    for path, name in names.items():
        if (path / "conda-meta").is_dir():
            there.setdefault(path.resolve(), (path, name))
    return dict(there.values())
