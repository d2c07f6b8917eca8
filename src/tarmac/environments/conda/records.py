"""Convert a parsed file to rattler's objects: channels, specs and package records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tarmac.environments.requirements import Requirements
from tarmac.errors import RequestError
from tarmac.files import placed

if TYPE_CHECKING:
    from tarmac.environments.conda.files import CondaFile

# A line of conda's explicit list: CHANNEL/SUBDIR/NAME-VERSION-BUILD.conda#DIGEST.
_URL = re.compile(
    r"(\S+)/([^/\s]+)/([^/\s]+)-([^-/\s]+)-([^-/\s]+?)(\.conda|\.tar\.bz2)"
    r"(?:#(?:sha256:)?([0-9a-f]{32}|[0-9a-f]{64}))?(?:\s+#.*)?"
)
_MD5_DIGITS = 32


def channels_of(file: CondaFile) -> list[Any]:
    """Return the file's channels; relative paths start from the file's directory."""
    import rattler  # noqa: PLC0415 - of an extra

    return [rattler.Channel(_address(name, file)) for name in file.channels]


def _address(channel: str, file: CondaFile) -> str:
    is_path = channel.startswith((".", "/", "~"))
    return placed(channel, file.path.parent).as_uri() if is_path else channel


def locked(
    file: CondaFile, environment: str | None = None
) -> tuple[list[Any], Requirements | None]:
    """Return the conda packages and the pip requirements of a lock for its platform.

    Args:
        file: Parsed lock file. Its ``platform`` selects the packages.
        environment: Name of an environment in the lock. None: ``default``, else the only one.

    Raises:
        RequestError: The lock lacks the environment, or has no packages for the platform.
    """
    import rattler  # noqa: PLC0415 - of an extra

    environments = dict(rattler.LockFile.from_path(file.path).environments())
    chosen = environments.get(environment or "default")
    if chosen is None and environment is None and len(environments) == 1:
        (chosen,) = environments.values()
    if chosen is None:
        has = sorted(environments)
        raise RequestError(
            f"environment: {file.path}: it has no environment {environment or 'default'!r}",
            hint=f"It has {', '.join(has)}" if has else None,
        )
    records = chosen.conda_repodata_records().get(file.platform)
    if not records:
        has = sorted(str(platform) for platform in chosen.platforms())
        raise RequestError(
            f"environment: {file.path}: it has nothing for {file.platform}",
            hint=f"It has {', '.join(has)}" if has else None,
        )
    packages = chosen.pypi_packages().get(file.platform, ())
    lines = tuple(
        _requirement(package, file) for package in packages if package.name not in file.optional
    )
    records = [record for record in records if record.name.normalized not in file.optional]
    return records, Requirements(lines) if lines else None


def _requirement(package: Any, file: CondaFile) -> str:
    """Return a package of a lock as a requirement; a directory becomes an editable install."""
    location = package.location
    if "://" not in location:
        path = placed(location, file.path.parent)
        if path.is_dir():
            return f"-e {path.as_uri()}"
        location = path.as_uri()
    try:
        digest = package.hashes.sha256
    except AttributeError:
        # rattler raises this for a package without hashes.
        digest = None
    checked = f"#sha256={digest.hex()}" if digest and "#" not in location else ""
    return f"{package.name} @ {location}{checked}"


def match_spec(file: CondaFile, number: int) -> Any:
    """Return a file's spec by its number, parsed from any form that conda accepts.

    Raises:
        RequestError: The spec is invalid. The message names line and column.
    """
    import rattler  # noqa: PLC0415 - of an extra
    from rattler.exceptions import InvalidMatchSpecError  # noqa: PLC0415 - of an extra

    try:
        return rattler.MatchSpec(file.specs[number], strict=False)
    except InvalidMatchSpecError as error:
        place = file.places[number]
        where = f"environment: {file.path}:{place.line}:{place.column}"
        raise RequestError(f"{where}: {file.specs[number]!r}: {error}") from error


def listed(file: CondaFile) -> list[Any]:
    """Return the package records of an explicit list's URLs.

    Raises:
        RequestError: A line is no URL of a package, repeats a package, or is for another platform;
            or there is no URL.
    """
    import rattler  # noqa: PLC0415 - of an extra

    records: dict[str, Any] = {}
    for number, line in enumerate(map(str.strip, file.text.splitlines()), start=1):
        if not line or line.startswith("#") or line == "@EXPLICIT":
            continue
        where = f"environment: {file.path}:{number}"
        match = _URL.fullmatch(line)
        if match is None:
            raise RequestError(
                f"{where}: no URL of a package",
                hint="As conda list --explicit --md5 writes it: "
                "https://CHANNEL/SUBDIR/NAME-VERSION-BUILD.conda#DIGEST",
            )
        place, subdir, name, version, build, ending, digest = match.groups()
        if subdir not in ("noarch", file.platform):
            raise RequestError(f"{where}: {name} is for {subdir}, not for {file.platform}")
        if name in records:
            raise RequestError(f"{where}: {name} is there twice")
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
        records[name] = rattler.RepoDataRecord(record, packed, f"{place}/{subdir}/{packed}", place)
    if not records:
        raise RequestError(f"environment: {file.path}: no URL of a package follows @EXPLICIT")
    return [*records.values()]
