"""Virtual environments for the nodes of a cluster: built on one node, shared as one archive.

An environment has tens of thousands of small files, which are slow on network file systems: a
thousand tasks that import PyTorch from one overload them. So each node has the environment on its
own disk, unpacked from an archive that the first node of its kind makes.
"""

from __future__ import annotations

import os
import platform
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tarmac.environments.once import made_once
from tarmac.environments.projects import ProjectSpec
from tarmac.environments.users import forget_users, living_users, note_user
from tarmac.environments.venvs import VenvSpec, build_venv, is_whole, pixi_spec, read_recipe
from tarmac.errors import TarmacError
from tarmac.files import make_private, storage_errors, taking_turns, tarfile, temporary_directory

# Linux refuses longer shebangs, and those with a space (fs/binfmt_script.c, BINPRM_BUF_SIZE).
_LONGEST_SHEBANG = 127

# File in the environment and its archive with the path where the environment was built.
_ORIGIN = "tarmac-origin"

# Environments that no task on this node has used for this long are removed.
_UNUSED_S = 14 * 86_400.0


def node_directory() -> Path:
    """Return the directory on this node's own disk that this user's tasks share.

    The directory is below ``SLURM_TMPDIR``, ``TMPDIR`` or ``/tmp``.

    Raises:
        TarmacError: Other users could change the directory.
    """
    above = Path(os.environ.get("SLURM_TMPDIR") or tempfile.gettempdir())
    directory = above / f"tarmac-{os.geteuid()}"
    with storage_errors(directory):
        if not make_private(directory):
            raise TarmacError(
                f"{directory}: other users could change files of this node's tasks here",
                hint="Ask its owner to remove it, or set TMPDIR",
            )
    return directory


def shipped_venv(spec: VenvSpec | ProjectSpec, base: Path, store: Path, root: Path) -> Path:
    """Return an environment on this node's own disk, built once for all nodes of its kind.

    Args:
        spec: Interpreter and packages, or a project that defines them.
        base: Directory that ``-r FILE`` and a project's path start from.
        store: Directory for archives, on a file system that all nodes share.
        root: Directory for environments, on this node's own disk.

    Returns:
        The directory of the environment.

    Raises:
        RequestError: The interpreter, a requirements file or the project does not exist.
        TarmacError: The build failed. The message contains the installer's error.
    """
    if isinstance(spec, ProjectSpec) and pixi_spec(spec, base) is not None:
        # Installed conda packages contain their absolute path and cannot be moved.
        return build_venv(spec, base, root)
    recipe = read_recipe(spec, base, kind=_kind())
    path = root / recipe.key
    with storage_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        with taking_turns(root / f"{path.name}.lock"):
            note_user(path)
            if not is_whole(path):
                _sweep(root)

                def build(part: Path) -> None:
                    recipe.install(path)
                    with storage_errors(part):
                        _pack(path, part)

                archive = made_once(store / f"{recipe.key}.tar", build)
                if not is_whole(path):
                    _unpack(archive, path)
    return path


def _kind() -> str:
    """Return the node's platform and C library, which built packages depend on."""
    return f"{sysconfig.get_platform()} {' '.join(platform.libc_ver())}"


def _pack(path: Path, archive: Path) -> None:
    (path / _ORIGIN).write_bytes(os.fsencode(path))
    with tarfile.open(archive, "w") as file:
        file.add(path, ".")


def _unpack(archive: Path, path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    try:
        with temporary_directory(path.parent) as part:
            with tarfile.open(archive) as file:
                file.extractall(part, filter="tar")
            _move_scripts(part, (part / _ORIGIN).read_bytes(), os.fsencode(path))
            part.rename(path)
    except tarfile.TarError as error:
        raise TarmacError(
            f"{archive} is damaged: {error}", hint="Remove it; Tarmac builds it again"
        ) from error


def _move_scripts(venv: Path, old: bytes, new: bytes) -> None:
    """Replace the old path of an environment in its scripts by the new one."""
    if old == new:
        return
    for path in _scripts(venv):
        content = path.read_bytes()
        line, end, rest = content.partition(b"\n")
        moved = content.replace(old, new)
        if line.startswith(b"#!" + old):
            interpreter = line[2:].replace(old, new)
            if len(interpreter) + 2 > _LONGEST_SHEBANG or b" " in new:
                # The form that pip writes: sh runs the line, and Python reads it as a string.
                line = b"#!/bin/sh\n'''exec' \"" + interpreter + b'" "$0" "$@"\n\' \'\'\''
                moved = line + end + rest.replace(old, new)
        if moved != content:
            path.write_bytes(moved)


def _scripts(venv: Path) -> Iterator[Path]:
    for path in sorted((venv / "bin").iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            is_script = file.read(2) == b"#!"
        if is_script or path.name.lower().startswith("activate"):
            yield path


def _sweep(root: Path) -> None:
    """Remove environments that no task on this node has used for 14 days."""
    for users in root.glob("*.users"):
        path = users.with_suffix("")
        newest = max((note.stat().st_mtime for note in users.iterdir()), default=0.0)
        if time.time() - newest > _UNUSED_S and not living_users(path):
            shutil.rmtree(path, ignore_errors=True)
            forget_users(path)
