"""Environments that conda, mamba or micromamba have made."""

from __future__ import annotations

import dataclasses
import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.files import expanded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CondaSpec", "existing_prefix"]

# Where conda, mamba and micromamba have environments, beside those that ~/.conda lists.
_ROOTS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda", "conda")


@dataclasses.dataclass(frozen=True)
class CondaSpec:
    """An environment of conda's.

    Attributes:
        file: ``environment.yml``, an explicit list, or a lock of conda-lock's or pixi's, by which
            one is built; or else one that exists, by
        name: its name,
        prefix: or its directory.
    """

    file: str | None = None
    name: str | None = None
    prefix: str | None = None


def existing_prefix(spec: CondaSpec, base: Path) -> Path:
    """Return the directory of an environment that exists.

    Args:
        spec: With a name or a prefix.
        base: What a relative prefix starts from.

    Raises:
        RequestError: There is none.
    """
    if spec.prefix is not None:
        path = Path(os.path.normpath(base / expanded(spec.prefix))).absolute()
        if not (path / "conda-meta").is_dir():
            raise RequestError(
                f"environment: {path} is no environment of conda's: it has no conda-meta"
            )
        return path
    known = _known_prefixes(os.environ)
    of_name = [path for path in known if path.name == spec.name]
    if not of_name:
        names = sorted({path.name for path in known})
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


def _known_prefixes(variables: Mapping[str, str]) -> Sequence[Path]:
    home = Path(variables.get("HOME") or "/")
    places = [Path(variables[n]) for n in ("MAMBA_ROOT_PREFIX", "CONDA_ROOT") if variables.get(n)]
    if program := variables.get("CONDA_EXE"):
        places.append(Path(program).parents[1])
    places += [above / name for above in (home, Path("/opt")) for name in _ROOTS]
    prefixes = [path for place in places for path in sorted((place / "envs").glob("*"))]
    try:
        listed = (home / ".conda" / "environments.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        listed = []
    prefixes += [Path(line) for line in listed if line.strip()]
    there = {path.resolve(): path for path in prefixes if (path / "conda-meta").is_dir()}
    return [*there.values()]
