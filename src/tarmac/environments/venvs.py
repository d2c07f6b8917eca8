"""Virtual environments that are built once and cached by their content."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from tarmac.environments.conda import CondaSpec
from tarmac.environments.installer import (
    find_fitting_python,
    find_python,
    install_venv,
    python_version,
    requirement_files,
)
from tarmac.environments.projects import (
    ProjectRecipe,
    ProjectSpec,
    ScriptNeeds,
    ScriptRecipe,
    read_project,
    read_script,
    script_recipe,
)
from tarmac.environments.requirements import Requirements, read_requirements
from tarmac.environments.users import forget_users, living_users, note_user
from tarmac.errors import RequestError
from tarmac.files import (
    is_held,
    open_lock,
    placed,
    read_errors,
    refuse_foreign_build,
    storage_errors,
    taking_turns,
    without_password,
    write_text,
)

if TYPE_CHECKING:
    from tarmac.environments.conda.recipe import CondaRecipe
    from tarmac.environments.conda.tools import ToolRecipe

# Names of environments, and of rattler's temporary package directories. Other names in the
# directory are locks and users' records.
_BUILT = re.compile(r"(?P<key>[0-9a-f]{16})(\.packages)?")


@dataclasses.dataclass(frozen=True)
class VenvSpec:
    """A virtual environment before it is built.

    Attributes:
        requirements: Requirements in the syntax of pip, including ``-r FILE``.
        python: Version, such as ``3.11``, or path of an interpreter. None: the interpreter that
            runs Tarmac.
        before: Packages to install first. The requirements are then built with these packages
            instead of in isolation.
        build_env: Environment variables for builds of packages.
    """

    requirements: tuple[str, ...]
    python: str | None = None
    before: tuple[str, ...] = ()
    build_env: Mapping[str, str] = dataclasses.field(default_factory=dict)


def venvs_directory() -> Path:
    """Return the directory of built environments: ``venvs`` in the user's cache directory."""
    return Path(platformdirs.user_cache_dir("tarmac")) / "venvs"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """The resolved inputs of an environment, and its build.

    Attributes:
        key: Digest of everything that determines the packages; the environment's directory name.
        python: Path of the interpreter for the environment.
        before: Requirements to install first.
        then: Requirements to install next, built with ``before``.
        build_env: Environment variables for builds of packages. If set, the installer uses no
            cache.
    """

    key: str
    python: str
    before: Requirements
    then: Requirements
    build_env: Mapping[str, str]

    def install(self, path: Path) -> None:
        """Build the environment from scratch; ``requirements.txt`` is written last.

        Raises:
            TarmacError: The build failed. The message contains the installer's error.
        """
        shutil.rmtree(path, ignore_errors=True)
        options = (
            *(("--no-build-isolation",) if self.before.lines else ()),
            *(("--no-cache-dir",) if self.build_env else ()),
        )
        with contextlib.ExitStack() as files:
            first = self.before.lines
            steps = [files.enter_context(requirement_files(self.before))] if first else []
            # A script may have no dependencies.
            if self.then.lines:
                steps.append([*options, *files.enter_context(requirement_files(self.then))])
            install_venv(path, self.python, steps, self.build_env)
        text = "\n".join((*self.before.lines, *self.then.lines)) + "\n"
        write_text(path / "requirements.txt", without_password(text))


def read_recipe(
    spec: VenvSpec | ProjectSpec | CondaSpec, base: Path, *, kind: str = ""
) -> Recipe | ProjectRecipe | ScriptRecipe | CondaRecipe | ToolRecipe:
    """Return the recipe of an environment, with everything that determines its key.

    Args:
        spec: Interpreter and packages, or a project or a file that defines them.
        base: Directory that ``-r FILE`` and relative paths start from.
        kind: Platform and C library of machines that can share the environment, with any installer.
            Empty: this machine only.

    Raises:
        RequestError: The interpreter, a requirements file or the project does not exist.
    """
    if isinstance(spec, ProjectSpec) and (of_pixi := pixi_spec(spec, base)) is not None:
        spec = of_pixi
    if isinstance(spec, CondaSpec):
        # Slow imports, which would delay the stage in of every task.
        file = placed(spec.file or "", base)
        if spec.tool is not None:
            from tarmac.environments.conda.tools import read_for_tool  # noqa: PLC0415

            return read_for_tool(file, spec.tool)
        from tarmac.environments.conda.recipe import read_conda  # noqa: PLC0415

        return read_conda(file, spec.environment)
    if isinstance(spec, ProjectSpec):
        place = placed(spec.path, base)
        if place.suffix != ".py":
            return read_project(spec, place, kind)
        needs = _needs_of(spec, place)
        wanted = spec.python or find_fitting_python(needs.requires_python, place)
        if needs.is_for_uv:
            return script_recipe(place, find_python(wanted), kind)
        spec = VenvSpec(requirements=needs.dependencies, python=wanted)
    python = find_python(spec.python)
    before = read_requirements(spec.before, base)
    then = read_requirements(spec.requirements, base)
    installer = "uv" if shutil.which("uv") else "pip"
    content = (
        python_version(python),
        # The archive links to the interpreter by path, which must be the same on all machines.
        (kind, os.path.realpath(python)) if kind else installer,
        before.content(),
        then.content(),
        sorted(spec.build_env.items()),
    )
    key = hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()
    return Recipe(key=key, python=python, before=before, then=then, build_env=spec.build_env)


def _needs_of(spec: ProjectSpec, path: Path) -> ScriptNeeds:
    if spec.extras or spec.groups:
        raise RequestError(f"environment: {path} is a script, which has no extras and no groups")
    needs = read_script(path)
    if needs is None:
        raise RequestError(
            f"environment: {path} does not say what it needs",
            hint="It says so in a comment, # /// script: "
            "https://packaging.python.org/en/latest/specifications/inline-script-metadata/",
        )
    return needs


def pixi_spec(spec: ProjectSpec, base: Path) -> CondaSpec | None:
    """Return the conda environment of a project's ``pixi.lock``; None without such a lock.

    A ``uv.lock`` in the same directory takes precedence.

    Args:
        spec: Spec of the project. ``path`` may also be a ``pixi.lock``.
        base: Directory that a relative path starts from.

    Raises:
        RequestError: The lock is used, and the spec has extras, groups or an interpreter; or the
            lock is not used, and the spec names an environment in it.
    """
    directory = placed(spec.path, base)
    is_named = directory.name == "pixi.lock"
    lock = directory if is_named else directory / "pixi.lock"
    if not lock.is_file() or (not is_named and (directory / "uv.lock").is_file()):
        if spec.environment is not None:
            raise RequestError(
                f"environment: {directory}: only pixi.lock has named environments, and it is "
                "missing or not used",
                hint="Name extras and groups of what uv.lock or pyproject.toml say.",
            )
        return None
    if spec.extras or spec.groups or spec.python:
        raise RequestError(
            f"environment: {lock}: its environment {spec.environment or 'default'!r} is taken, "
            "as it is",
            hint="Leave extras, groups and python out. Another one: environment: NAME",
        )
    return CondaSpec(file=str(lock), environment=spec.environment)


def build_venv(
    spec: VenvSpec | ProjectSpec | CondaSpec, base: Path, root: Path | None = None
) -> Path:
    """Build an environment, or find it in the cache.

    A lock makes concurrent processes build the same environment only once.

    Args:
        spec: Interpreter and packages, or a project or a file that defines them.
        base: Directory that ``-r FILE`` and relative paths start from.
        root: Directory of built environments. Default `venvs_directory`.

    Returns:
        The directory of the environment.

    Raises:
        RequestError: The interpreter, a requirements file or the project does not exist, or another
            user has made the environment or owns its directory.
        StorageError: The directory cannot be written to.
        TarmacError: The build failed. The message contains the installer's error.
    """
    root = root or venvs_directory()
    recipe = read_recipe(spec, base)
    path = root / recipe.key
    with contextlib.ExitStack() as turn:
        with storage_errors(root):
            root.mkdir(parents=True, exist_ok=True)
            refuse_foreign_build(path, what="its Python")
            turn.enter_context(taking_turns(root / f"{path.name}.lock"))
            note_user(path)
        if not is_whole(path):
            _remove_half_built(root)
            try:
                recipe.install(path)
            except BaseException:
                # No command lists incomplete environments, which would take space unnoticed.
                shutil.rmtree(path, ignore_errors=True)
                raise
    return path


def _remove_half_built(root: Path) -> None:
    """Remove incomplete environments of killed builds, which no command lists."""
    for path in root.iterdir():
        match = _BUILT.fullmatch(path.name)
        lock = root / f"{match['key']}.lock" if match else path
        if match is None or (path / "requirements.txt").exists() or is_held(lock):
            continue
        turn = open_lock(lock)
        if turn.acquire():
            try:
                if not (path / "requirements.txt").exists():
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                turn.release()


def is_whole(path: Path) -> bool:
    """Return whether an environment was built completely and its interpreter still exists."""
    has_python = (path / "bin" / "python").exists() or not (path / "pyvenv.cfg").exists()
    return has_python and (path / "requirements.txt").exists()


def list_venvs(root: Path | None = None) -> list[tuple[Path, str]]:
    """Return the directories of all built environments, each with its requirements.

    Raises:
        StorageError: The directory cannot be read.
    """
    root = root or venvs_directory()
    with read_errors(root):
        paths = sorted(root.glob("*/requirements.txt"))
        return [(path.parent, path.read_text(encoding="utf-8").strip()) for path in paths]


def remove_venv(name: str, root: Path | None = None) -> Path:
    """Remove an environment by a prefix of its name, and return its directory.

    Raises:
        RequestError: No environment or several match, or a process uses the environment.
    """
    root = root or venvs_directory()
    paths = [path for path, _ in list_venvs(root) if path.name.startswith(name)]
    if len(paths) != 1:
        problem = "no environment begins" if not paths else f"{len(paths)} environments begin"
        raise RequestError(f"{problem} with {name!r}", hint="See them: tarmac env list")
    with taking_turns(root / f"{paths[0].name}.lock"):
        if users := living_users(paths[0]):
            raise RequestError(
                f"environment {paths[0].name} is in use by {', '.join(users)}",
                hint="See the running jobs: tarmac ps",
            )
        shutil.rmtree(paths[0])
        forget_users(paths[0])
    return paths[0]
