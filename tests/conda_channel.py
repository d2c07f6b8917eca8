"""A channel of conda's on this machine, of packages that a test makes."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tarfile
from pathlib import Path


def make_package(
    channel: Path,
    name: str,
    version: str = "1.0",
    *,
    files: dict[str, str] | None = None,
    links: dict[str, str] | None = None,
    depends: tuple[str, ...] = (),
    subdir: str = "noarch",
) -> str:
    """Add a package to a channel, and return its file's name.

    Args:
        channel: Its directory.
        name: Of the package.
        version: Likewise.
        files: What it holds, by path; those in ``bin`` are programs.
        links: Where links in it lead, by path.
        depends: What it needs.
        subdir: ``noarch``, or a platform.
    """
    contents = {path: text.encode() for path, text in (files or {}).items()}
    info = {
        "name": name,
        "version": version,
        "build": "0",
        "build_number": 0,
        "depends": [*depends],
        "subdir": subdir,
        "timestamp": 1_700_000_000_000,
        **({"noarch": "generic"} if subdir == "noarch" else {}),
    }
    paths = [
        {
            "_path": path,
            "path_type": "hardlink",
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_in_bytes": len(content),
        }
        for path, content in contents.items()
    ]
    paths += [{"_path": path, "path_type": "softlink"} for path in links or {}]
    about = {
        "info/index.json": json.dumps(info).encode(),
        "info/paths.json": json.dumps({"paths_version": 1, "paths": paths}).encode(),
        "info/files": "\n".join((*contents, *(links or {}))).encode(),
    }
    directory = channel / subdir
    directory.mkdir(parents=True, exist_ok=True)
    packed = f"{name}-{version}-0.tar.bz2"
    with tarfile.open(directory / packed, "w:bz2") as archive:
        for path, content in {**about, **contents}.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), 0o755 if path.startswith("bin/") else 0o644
            archive.addfile(member, io.BytesIO(content))
        for path, target in (links or {}).items():
            member = tarfile.TarInfo(path)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return packed


def make_tool(channel: Path) -> None:
    """Make a channel of a program that tells what its activation script has set."""
    script = 'export TOOL_HOME="$CONDA_PREFIX/share"\n'
    files = {
        "bin/tool": '#!/bin/sh\necho "tool at $TOOL_HOME"\n',
        "etc/conda/activate.d/tool.sh": script,
    }
    make_package(channel, "tool", files=files)
    index(channel)


def index(channel: Path) -> None:
    """Write a channel's index anew."""
    from rattler.index import index_fs

    asyncio.run(index_fs(channel))


def write_lock(
    path: Path,
    channel: Path,
    *packages: str,
    pip: dict[str, str] | None = None,
    named: dict[str, tuple[str, ...]] | None = None,
) -> None:
    """Write a lock as pixi does.

    Args:
        path: Of the lock.
        channel: Where its packages are.
        packages: Of the channel, ``NAME=VERSION``, without a platform.
        pip: What pip installs: places, by name.
        named: The packages of further environments, by their names.
    """
    import rattler

    here, place = rattler.LockPlatform(str(rattler.Subdir.current())), channel.as_uri()
    lock = rattler.LockFile([here])
    for environment, held in {"default": packages, **(named or {})}.items():
        lock.set_channels(environment, [rattler.LockChannel(place)])
        for package in held:
            name, version = package.split("=")
            build = rattler.BuildString("0")
            record = rattler.PackageRecord(name, version, build, 0, "noarch")
            packed = f"{name}-{version}-0.tar.bz2"
            found = rattler.RepoDataRecord(record, packed, f"{place}/noarch/{packed}", place)
            lock.add_conda_package(environment, here, found)
    for name, location in (pip or {}).items():
        lock.add_pypi_package("default", here, name, "1.0", location)
    lock.to_path(path)
