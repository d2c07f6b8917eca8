"""Recipes for Python projects, and for scripts with inline metadata (PEP 723)."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from tarmac.environments.installer import (
    find_project_python,
    install_project,
    install_script,
    python_version,
)
from tarmac.errors import RequestError
from tarmac.files import write_text

# The regular expression of https://packaging.python.org/en/latest/specifications/inline-script-metadata/
_BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")

# Files beside pyproject.toml that change the environment that uv builds.
_LOCK, _OTHERS = "uv.lock", (".python-version", "uv.toml")


@dataclasses.dataclass(frozen=True)
class ProjectSpec:
    """A project or a script before its environment is built.

    Attributes:
        path: Path of a directory with a ``pyproject.toml``, or of a Python file.
        extras: Optional dependencies of a directory's project to install too.
        groups: Groups of dependencies to install too.
        python: Version, such as ``3.11``, or path of an interpreter. None: the first that uv finds
            for the project.
        environment: Name of an environment in a ``pixi.lock``. None: ``default``.
    """

    path: str
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    python: str | None = None
    environment: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProjectRecipe:
    """A recipe for a project; see `tarmac.environments.venvs.Recipe`.

    Attributes:
        key: Digest of everything that determines the packages. The project's own code does not
            count, because it is linked, not installed.
        python: Path of the interpreter for the environment.
        directory: Directory of the project, where ``pyproject.toml`` is.
        extras: Optional dependencies to install too.
        groups: Groups of dependencies to install too.
        is_locked: Whether ``uv.lock`` determines the packages.
    """

    key: str
    python: str
    directory: Path
    extras: tuple[str, ...]
    groups: tuple[str, ...]
    is_locked: bool

    def install(self, path: Path) -> None:
        """Build the environment from scratch; ``requirements.txt`` is written last.

        Raises:
            TarmacError: The build failed. The message contains uv's error.
        """
        install_project(
            path,
            self.python,
            self.directory,
            extras=self.extras,
            groups=self.groups,
            is_locked=self.is_locked,
        )
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        groups = "".join(f" --group {name}" for name in self.groups)
        write_text(path / "requirements.txt", f"-e {self.directory}{extras}{groups}\n")


def read_project(spec: ProjectSpec, directory: Path, kind: str) -> ProjectRecipe:
    """Return the recipe of a project's environment, with everything that determines its key.

    Args:
        spec: Spec of a project. A script's spec is not supported.
        directory: Directory of the project, or its ``pyproject.toml``.
        kind: Platform and C library that the environment depends on. Empty: this machine only.

    Raises:
        RequestError: The project, uv or a suitable interpreter does not exist, or the project lacks
            an extra or a group.
    """
    project = read_pyproject(spec, directory)
    directory = _pyproject_of(directory).parent
    python = find_project_python(directory, spec.python)
    lock = _lock_for(directory)
    # With a lock, uv installs the default groups by itself.
    defaults = () if lock is not None else _default_groups(project)
    groups = tuple(dict.fromkeys((*defaults, *spec.groups)))
    files = [directory / name for name in ("pyproject.toml", *_OTHERS)]
    content = (
        python_version(python),
        (kind, str(Path(python).resolve())) if kind else "",
        str(directory),
        [path.read_bytes() if path.is_file() else b"" for path in files],
        lock.read_bytes() if lock is not None else b"",
        spec.extras,
        groups,
    )
    return ProjectRecipe(
        key=hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest(),
        python=python,
        directory=directory,
        extras=spec.extras,
        groups=groups,
        is_locked=lock is not None,
    )


def _pyproject_of(place: Path) -> Path:
    return place if place.name == "pyproject.toml" else place / "pyproject.toml"


def read_pyproject(spec: ProjectSpec, directory: Path) -> dict[str, Any]:
    """Return the content of a project's ``pyproject.toml``.

    Args:
        spec: Spec of the project, whose extras and groups are checked.
        directory: Directory of the project, or its ``pyproject.toml``.

    Raises:
        RequestError: The file cannot be read, or lacks an extra or a group.
    """
    project = _read_toml(_pyproject_of(directory))
    _check_names("extra", spec.extras, _table(project, "project").get("optional-dependencies"))
    _check_names("group", spec.groups, project.get("dependency-groups"))
    return project


def _lock_for(directory: Path) -> Path | None:
    """Return the ``uv.lock`` of a project or of its workspace, or None."""
    if (directory / _LOCK).is_file():
        return directory / _LOCK
    for above in directory.parents:
        if not (above / _LOCK).is_file():
            continue
        workspace = _table(_settings_of_uv(_read_toml(above / "pyproject.toml")), "workspace")
        if any(directory in above.glob(pattern) for pattern in workspace.get("members", [])):
            is_out = any(directory in above.glob(name) for name in workspace.get("exclude", []))
            return None if is_out else above / _LOCK
    return None


def _settings_of_uv(project: dict[str, Any]) -> dict[str, Any]:
    return _table(_table(project, "tool"), "uv")


def _default_groups(project: dict[str, Any]) -> list[str]:
    groups = [*_table(project, "dependency-groups")]
    chosen = _settings_of_uv(project).get("default-groups", ["dev"])
    return groups if chosen == "all" else [name for name in groups if name in chosen]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"environment: {path}: {error.strerror}") from error
    except ValueError as error:
        raise RequestError(f"environment: {path}: {error}") from error


def _table(content: dict[str, Any], name: str) -> dict[str, Any]:
    table = content.get(name)
    return table if isinstance(table, dict) else {}


def _check_names(kind: str, wanted: Sequence[str], there: Any) -> None:
    known = {_normal(name): name for name in there} if isinstance(there, dict) else {}
    for name in wanted:
        if _normal(name) not in known:
            raise RequestError(
                f"environment: the project has no {kind} {name!r}",
                hint=f"It has {', '.join(known.values())}" if known else None,
            )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclasses.dataclass(frozen=True)
class ScriptNeeds:
    """The dependencies in a script's inline metadata.

    Attributes:
        dependencies: Requirements in the syntax of pip.
        requires_python: Accepted versions of Python, such as ``>=3.12``. Empty: any.
        is_for_uv: Whether only uv can build the environment: the script has settings for uv, or a
            lock beside it.
    """

    dependencies: tuple[str, ...]
    requires_python: str = ""
    is_for_uv: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScriptRecipe:
    """A recipe for a script that uv builds; see `tarmac.environments.venvs.Recipe`.

    Attributes:
        key: Digest of everything that determines the packages.
        python: Path of the interpreter for the environment.
        script: Python file with a ``# /// script`` comment.
        is_locked: Whether the lock beside the script determines the packages.
    """

    key: str
    python: str
    script: Path
    is_locked: bool

    def install(self, path: Path) -> None:
        """Build the environment from scratch; ``requirements.txt`` is written last.

        Raises:
            TarmacError: The build failed. The message contains uv's error.
        """
        install_script(path, self.python, self.script, is_locked=self.is_locked)
        write_text(path / "requirements.txt", f"--script {self.script}\n")


def script_recipe(script: Path, python: str, kind: str) -> ScriptRecipe:
    """Return the recipe of a script's environment, with everything that determines its key.

    Args:
        script: Python file with a ``# /// script`` comment.
        python: Path of the interpreter for the environment.
        kind: Platform and C library that the environment depends on. Empty: this machine only.

    Raises:
        RequestError: The interpreter does not work.
    """
    lock = _lock_of(script)
    blocks = [match[0] for match in _BLOCK.finditer(script.read_text(encoding="utf-8"))]
    content = (
        python_version(python),
        (kind, str(Path(python).resolve())) if kind else "",
        # Relative paths start from the script's directory.
        str(script.parent),
        blocks,
        lock.read_bytes() if lock.is_file() else b"",
    )
    key = hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()
    return ScriptRecipe(key=key, python=python, script=script, is_locked=lock.is_file())


def _lock_of(script: Path) -> Path:
    return script.with_name(f"{script.name}.lock")


def read_script(path: Path) -> ScriptNeeds | None:
    """Return the dependencies in a script's ``# /// script`` comment; None without a comment.

    Raises:
        RequestError: The file cannot be read, or the comment violates PEP 723.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RequestError(f"environment: {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        return None
    blocks = [match for match in _BLOCK.finditer(text) if match["type"] == "script"]
    if not blocks:
        return None
    line = text.count("\n", 0, blocks[-1].start()) + 1
    where = f"environment: {path}:{line}"
    # The expression matches two adjacent blocks as one block.
    second = blocks[0]["content"].find("\n# /// script\n")
    if second >= 0:
        line += blocks[0]["content"].count("\n", 0, second) + 2
        where = f"environment: {path}:{line}"
    if len(blocks) > 1 or second >= 0:
        raise RequestError(f"{where}: a second block of script")
    content = "".join(
        row.removeprefix("#").removeprefix(" ")
        for row in blocks[0]["content"].splitlines(keepends=True)
    )
    try:
        block = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        # The error's line number is relative to the block.
        match = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error), re.DOTALL)
        if match is None:
            raise RequestError(f"{where}: {error}") from error
        place = f"{line + int(match[2])}:{int(match[3]) + len('# ')}"
        raise RequestError(f"environment: {path}:{place}: {match[1]}") from error
    try:
        is_for_uv = "uv" in _table(block, "tool") or _lock_of(path).is_file()
        return dataclasses.replace(_needs_of(block), is_for_uv=is_for_uv)
    except (TypeError, ValueError, InvalidRequirement, InvalidSpecifier) as error:
        raise RequestError(f"{where}: {error}") from error


def _needs_of(block: dict[str, Any]) -> ScriptNeeds:
    dependencies, versions = block.get("dependencies", []), block.get("requires-python", "")
    if not isinstance(dependencies, list):
        raise TypeError(f"dependencies is {dependencies!r}, expected a list of requirements")
    if not isinstance(versions, str):
        raise TypeError(f'requires-python is {versions!r}, expected a text such as ">=3.12"')
    requirements = tuple(str(Requirement(str(entry))) for entry in dependencies)
    return ScriptNeeds(requirements, str(SpecifierSet(versions)))
