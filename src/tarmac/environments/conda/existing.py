"""Environments that conda, mamba or micromamba have made."""

from __future__ import annotations

import dataclasses
import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.files import placed

if TYPE_CHECKING:
    from collections.abc import Mapping

# Where conda, mamba and micromamba have environments, beside those that ~/.conda lists.
_ROOTS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda", "conda")


@dataclasses.dataclass(frozen=True)
class CondaSpec:
    """An environment of conda's.

    Attributes:
        file: ``environment.yml``, an explicit list, or a lock of conda-lock's or pixi's, by which
            one is built; beside a name or a prefix, what that one must have.
        name: The name of one that exists.
        prefix: The directory of one that exists.
        tool: What builds it in the place of rattler: ``conda``, ``mamba`` or ``micromamba``, which
            must be on the ``PATH`` of the machine where the task runs.
        environment: Its name in a lock that has several; by default ``default``.
    """

    file: str | None = None
    name: str | None = None
    prefix: str | None = None
    tool: str | None = None
    environment: str | None = None


def existing_prefix(spec: CondaSpec, base: Path) -> Path:
    """Return the directory of an environment that exists.

    Args:
        spec: With a name or a prefix.
        base: What a relative prefix, and a relative file, start from.

    Raises:
        RequestError: There is none, or it lacks what the file says.
        MissingExtraError: There is a file, and rattler is not installed.
    """
    prefix = _find(spec, base)
    if spec.file is not None:
        # It takes long to import, which each staging of a task would wait for.
        from tarmac.environments.conda.comparing import refuse_difference  # noqa: PLC0415

        refuse_difference(prefix, placed(spec.file, base))
    return prefix


def _find(spec: CondaSpec, base: Path) -> Path:
    if spec.prefix is not None:
        path = placed(spec.prefix, base)
        if not (path / "conda-meta").is_dir():
            raise RequestError(
                f"environment: {path} is no environment of conda's: it has no conda-meta"
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
    """Return the environments that are known here, by their directories, with their names."""
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
    # conda lists those of its own there as well.
    names |= {path: path.name for path in map(Path, filter(str.strip, listed)) if path not in names}
    there: dict[Path, tuple[Path, str]] = {}
    for path, name in names.items():
        if (path / "conda-meta").is_dir():
            there.setdefault(path.resolve(), (path, name))
    return dict(there.values())
