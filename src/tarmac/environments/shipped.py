"""Virtual environments for the nodes of a cluster: built on one, sent to the others as one file.

An environment has tens of thousands of small files, which network file systems are slow at: a
thousand tasks that import PyTorch from one bring them down. So each node has the environment on its
own disk, unpacked from an archive that the first node of its kind has made.
"""

from __future__ import annotations

import os
import platform
import shutil
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.environments.once import made_once
from tarmac.environments.projects import ProjectSpec
from tarmac.environments.users import forget_users, living_users, note_user
from tarmac.environments.venvs import VenvSpec, build_venv, is_whole, pixi_spec, read_recipe
from tarmac.errors import TarmacError
from tarmac.files import make_private, storage_errors, taking_turns, tarfile, temporary_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

# A shebang that is longer, or has a space, is none to Linux (fs/binfmt_script.c, BINPRM_BUF_SIZE).
_LONGEST_SHEBANG = 127

# Where an environment was built, in its archive and beside its own files.
_ORIGIN = "tarmac-origin"

# One that no task of this node has used for so long makes room.
_UNUSED_S = 14 * 86_400.0


def node_directory() -> Path:
    """Return the directory on this node's own disk for what tasks of this user share.

    It is below ``SLURM_TMPDIR``, ``TMPDIR`` or ``/tmp``.

    Raises:
        TarmacError: Another user has taken its place.
    """
    above = Path(os.environ.get("SLURM_TMPDIR") or tempfile.gettempdir())
    directory = above / f"tarmac-{os.geteuid()}"
    with storage_errors(directory):
        if not make_private(directory):
            raise TarmacError(
                f"{directory}: others could change what is kept here for tasks of this node",
                hint="Have it taken away by whom it belongs to, or set TMPDIR",
            )
    return directory


def shipped_venv(spec: VenvSpec | ProjectSpec, base: Path, store: Path, root: Path) -> Path:
    """Return an environment on this node's own disk, built once for all nodes of its kind.

    Args:
        spec: Its interpreter and packages, or the project that says them.
        base: What ``-r FILE`` and a project's path start from.
        store: Where archives are kept, on a file system that all nodes see.
        root: Where environments are kept on this node.

    Returns:
        Its directory.

    Raises:
        RequestError: The interpreter, a requirements file or the project is not here.
        TarmacError: It could not be built; the installer's own words are in the message.
    """
    if isinstance(spec, ProjectSpec) and pixi_spec(spec, base) is not None:
        # The files of conda's packages know their place.
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
                if not (path / "requirements.txt").exists():
                    _unpack(archive, path)
    return path


def _kind() -> str:
    """Name what a node has that built packages rest on: its platform and its C library."""
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
            f"{archive} is damaged: {error}", hint="Remove it, and it is made again"
        ) from error


def _move_scripts(venv: Path, old: bytes, new: bytes) -> None:
    """Have the scripts of an environment start the interpreter where it is now."""
    if old == new:
        return
    for path in _scripts(venv):
        content = path.read_bytes()
        line, end, rest = content.partition(b"\n")
        moved = content.replace(old, new)
        if line.startswith(b"#!" + old):
            interpreter = line[2:].replace(old, new)
            if len(interpreter) + 2 > _LONGEST_SHEBANG or b" " in new:
                # As pip writes it: a script to sh and a string to Python.
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
    """Remove environments of this node that no task has used for long."""
    for users in root.glob("*.users"):
        path = users.with_suffix("")
        newest = max((note.stat().st_mtime for note in users.iterdir()), default=0.0)
        if time.time() - newest > _UNUSED_S and not living_users(path):
            shutil.rmtree(path, ignore_errors=True)
            forget_users(path)
