"""Virtual environments of pinned packages, built once and kept by their content."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from filelock import FileLock

from tarmac.environments.installer import (
    find_python,
    install_venv,
    python_version,
    requirement_files,
)
from tarmac.environments.requirements import read_requirements
from tarmac.environments.users import forget_users, living_users, note_user
from tarmac.errors import RequestError
from tarmac.files import without_password, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VenvSpec", "build_venv", "list_venvs", "remove_venv", "venvs_directory"]


@dataclasses.dataclass(frozen=True)
class VenvSpec:
    """A virtual environment before it is built.

    Attributes:
        requirements: As pip takes them, or lines ``-r FILE``.
        python: A version, ``3.11``, or an interpreter's path; by default the one that runs this.
        before: Packages that are installed first, which the requirements are then built with,
            rather than each in isolation.
        build_env: Variables for that build.
    """

    requirements: tuple[str, ...]
    python: str | None = None
    before: tuple[str, ...] = ()
    build_env: Mapping[str, str] = dataclasses.field(default_factory=dict)


def venvs_directory() -> Path:
    """Return where built environments are kept: ``venvs`` in the user's cache directory."""
    return Path(platformdirs.user_cache_dir("tarmac")) / "venvs"


def build_venv(spec: VenvSpec, base: Path, root: Path | None = None) -> Path:
    """Build an environment, or find the one that was built before.

    Two processes that want the same one build it once.

    Args:
        spec: Its interpreter and packages.
        base: What ``-r FILE`` starts from.
        root: Where environments are kept; by default `venvs_directory`.

    Returns:
        Its directory.

    Raises:
        RequestError: The interpreter or a requirements file is not here.
        TarmacError: It could not be built; the installer's own words are in the message.
    """
    root = root or venvs_directory()
    python = find_python(spec.python)
    before = read_requirements(spec.before, base)
    then = read_requirements(spec.requirements, base)
    content = repr(
        (
            python_version(python),
            "uv" if shutil.which("uv") else "pip",
            before.content(),
            then.content(),
            sorted(spec.build_env.items()),
        )
    )
    path = root / hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f"{path.name}.lock"):
        note_user(path)
        if not (path / "requirements.txt").exists():
            shutil.rmtree(path, ignore_errors=True)
            options = (
                *(("--no-build-isolation",) if before.lines else ()),
                *(("--no-cache-dir",) if spec.build_env else ()),
            )
            with contextlib.ExitStack() as files:
                steps = [files.enter_context(requirement_files(before))] if before.lines else []
                steps.append([*options, *files.enter_context(requirement_files(then))])
                install_venv(path, python, steps, spec.build_env)
            text = "\n".join((*before.lines, *then.lines)) + "\n"
            write_text(path / "requirements.txt", without_password(text))
    return path


def list_venvs(root: Path | None = None) -> list[tuple[Path, str]]:
    """Return the environments that are there, each with its requirements."""
    root = root or venvs_directory()
    found = sorted(root.glob("*/requirements.txt"))
    return [(path.parent, path.read_text(encoding="utf-8").strip()) for path in found]


def remove_venv(name: str, root: Path | None = None) -> Path:
    """Remove an environment by the beginning of its name.

    Raises:
        RequestError: There is none, several begin so, or a process uses it.
    """
    root = root or venvs_directory()
    found = [path for path, _ in list_venvs(root) if path.name.startswith(name)]
    if len(found) != 1:
        problem = "no environment begins" if not found else f"{len(found)} environments begin"
        raise RequestError(f"{problem} with {name!r}", hint="See them: tarmac env list")
    with FileLock(root / f"{found[0].name}.lock"):
        if users := living_users(found[0]):
            raise RequestError(
                f"environment {found[0].name} is in use by {', '.join(users)}",
                hint="See the jobs at work: tarmac ps",
            )
        shutil.rmtree(found[0])
        forget_users(found[0])
    return found[0]
