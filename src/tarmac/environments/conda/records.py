"""What rattler needs to know of a file: its channels, and the packages that it lists or locks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tarmac.environments.requirements import Requirements
from tarmac.errors import RequestError
from tarmac.files import placed

if TYPE_CHECKING:
    from tarmac.environments.conda.files import CondaFile

__all__ = ["channels_of", "listed", "locked"]

# A line of an explicit list, CHANNEL/SUBDIR/NAME-VERSION-BUILD.conda#DIGEST, as conda writes it.
_URL = re.compile(
    r"^\s*(\S+)/([^/\s]+)/([^/\s]+)-([^-/\s]+)-([^-/\s]+?)(\.conda|\.tar\.bz2)"
    r"(?:#(?:sha256:)?([0-9a-f]{32}|[0-9a-f]{64}))?\s*$",
    re.MULTILINE,
)
_MD5_DIGITS = 32


def channels_of(file: CondaFile) -> list[Any]:
    """Return where packages are searched; a path starts from the file's directory."""
    import rattler  # noqa: PLC0415 - of an extra

    return [rattler.Channel(_address(name, file)) for name in file.channels]


def _address(channel: str, file: CondaFile) -> str:
    is_path = channel.startswith((".", "/", "~"))
    return placed(channel, file.path.parent).as_uri() if is_path else channel


def locked(file: CondaFile) -> tuple[list[Any], Requirements | None]:
    """Return what a lock has for its platform: packages of conda's, and of pip's."""
    import rattler  # noqa: PLC0415 - of an extra

    lock = rattler.LockFile.from_path(file.path)
    for _, environment in sorted(lock.environments(), key=lambda pair: pair[0] != "default"):
        records = environment.conda_repodata_records().get(file.platform)
        if records:
            packages = environment.pypi_packages().get(file.platform, ())
            lines = tuple(_requirement(package, file) for package in packages)
            return records, Requirements(lines) if lines else None
        has = sorted(str(found) for found in environment.platforms())
        raise RequestError(
            f"environment: {file.path}: it has nothing for {file.platform}",
            hint=f"It has {', '.join(has)}" if has else None,
        )
    raise RequestError(f"environment: {file.path}: it has no environment")


def _requirement(package: Any, file: CondaFile) -> str:
    """Return a package of a lock's as pip takes it; a directory is linked to, as projects are."""
    if "://" in package.location:
        return f"{package.name} @ {package.location}"
    path = placed(package.location, file.path.parent)
    return f"-e {path.as_uri()}" if path.is_dir() else f"{package.name} @ {path.as_uri()}"


def listed(file: CondaFile) -> list[Any]:
    """Return what the URLs of an explicit list name."""
    import rattler  # noqa: PLC0415 - of an extra

    records = []
    for match in _URL.finditer(file.text):
        place, subdir, name, version, build, ending, digest = match.groups()
        record = rattler.PackageRecord(
            name=name,
            version=version,
            build=rattler.BuildString(build),
            build_number=0,
            subdir=subdir,
            md5=bytes.fromhex(digest) if digest and len(digest) == _MD5_DIGITS else None,
            sha256=bytes.fromhex(digest) if digest and len(digest) != _MD5_DIGITS else None,
        )
        if "://" not in place:
            place = placed(place, file.path.parent).as_uri()
        packed = f"{name}-{version}-{build}{ending}"
        url = f"{place}/{subdir}/{packed}"
        records.append(rattler.RepoDataRecord(record, packed, url, place))
    if not records:
        raise RequestError(f"environment: {file.path}: no URL of a package follows @EXPLICIT")
    return records
