"""Environments that are built of conda's packages, by rattler."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.distribution import require
from tarmac.environments.conda.files import read_conda_file
from tarmac.environments.conda.problems import problem_of
from tarmac.environments.installer import install_into, requirement_files
from tarmac.environments.requirements import Requirements
from tarmac.errors import RequestError, TarmacError
from tarmac.files import expanded, without_password, write_json, write_text

if TYPE_CHECKING:
    from tarmac.environments.conda.files import CondaFile

__all__ = ["CondaRecipe", "read_conda"]

# A line of an explicit list, CHANNEL/SUBDIR/NAME-VERSION-BUILD.conda#DIGEST, as conda writes it.
_URL = re.compile(
    r"^\s*(\S+)/([^/\s]+)/([^/\s]+)-([^-/\s]+)-([^-/\s]+?)(\.conda|\.tar\.bz2)"
    r"(?:#(?:sha256:)?([0-9a-f]{32}|[0-9a-f]{64}))?\s*$",
    re.MULTILINE,
)
_MD5_DIGITS = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class CondaRecipe:
    """How an environment is built; see `tarmac.environments.venvs.Recipe`.

    Attributes:
        key: Another one wherever anything that is to be installed differs, or what packages may be
            chosen by: the driver's CUDA, the processor, the C library.
        file: What it holds.
        platform: As conda names it: ``linux-64``.
    """

    key: str
    file: CondaFile
    platform: str

    def install(self, path: Path) -> None:
        """Build it anew; its ``requirements.txt`` is there once it is whole.

        Raises:
            RequestError: No channel has a package, packages do not fit together, or the lock has
                none for this platform.
            TarmacError: It could not be built.
        """
        shutil.rmtree(path, ignore_errors=True)
        installed, pip = asyncio.run(_install(self.file, self.platform, path))
        if pip is not None:
            if not (path / "bin" / "python").exists():
                raise RequestError(
                    f"environment: {self.file.path}: pip's packages need python among the others"
                )
            # A lock lists what its packages need, too.
            alone = ["--no-deps"] if self.file.form == "lock" else []
            with requirement_files(pip) as words:
                install_into(path, [*alone, *words])
        # Where conda itself keeps them.
        write_json(path / "conda-meta" / "state", {"env_vars": dict(self.file.variables)})
        write_text(path / "requirements.txt", "".join(f"{line}\n" for line in installed))


def read_conda(path: Path) -> CondaRecipe:
    """Look up all that an environment depends on.

    Args:
        path: The file that says what is in it.

    Raises:
        RequestError: The file is not here, or of no form.
        MissingExtraError: rattler is not installed.
    """
    require("rattler")
    import rattler  # noqa: PLC0415 - of an extra

    file = read_conda_file(path)
    platform = str(rattler.Subdir.current())
    content = (
        file.text,
        # What relative channels mean.
        str(path.parent) if any(name.startswith(".") for name in file.channels) else "",
        file.pip.content() if file.pip is not None else "",
        platform,
        sorted(str(package.into_generic()) for package in rattler.VirtualPackage.detect()),
    )
    key = hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()
    return CondaRecipe(key=key, file=file, platform=platform)


async def _install(
    file: CondaFile, platform: str, path: Path
) -> tuple[list[str], Requirements | None]:
    """Install a file's packages of conda's; return these, a line each, and what is left to pip."""
    import rattler  # noqa: PLC0415 - of an extra

    gateway, pip = rattler.Gateway(), file.pip
    try:
        if file.form == "yml":
            records = await _solve(file, platform, gateway)
        elif file.form == "lock":
            records, pip = _locked(file, platform)
        else:
            records = _listed(file)
        await rattler.install(records, target_prefix=path, show_progress=False)
    except _errors() as error:
        problem = problem_of(str(error), file.channels)
        hint = problem.hint
        if problem.missing:
            hint = await _near(problem.missing, gateway, file, platform) or hint
        kind = RequestError if problem.is_request else TarmacError
        words = without_password(problem.words)
        raise kind(f"environment: {file.path}: {words}", hint=hint) from error
    return [f"{r.name.normalized}={r.version}={r.build}" for r in records], pip


def _errors() -> tuple[type[Exception], ...]:
    from rattler import exceptions  # noqa: PLC0415 - of an extra

    kinds = (found for found in vars(exceptions).values() if isinstance(found, type))
    return tuple(kind for kind in kinds if issubclass(kind, Exception))


async def _solve(file: CondaFile, platform: str, gateway: Any) -> list[Any]:
    import rattler  # noqa: PLC0415 - of an extra

    return await rattler.solve(
        _channels(file),
        list(file.specs),
        gateway=gateway,
        platforms=[platform, "noarch"],  # type: ignore[list-item]  # rattler names them itself
        virtual_packages=rattler.VirtualPackage.detect(),
    )


async def _near(name: str, gateway: Any, file: CondaFile, platform: str) -> str | None:
    """Return which versions of a package there are, or which packages are called nearly so."""
    channels, platforms = _channels(file), [platform, "noarch"]
    names = [found.normalized for found in await gateway.names(channels, platforms)]
    if name not in names:
        close = difflib.get_close_matches(name, names, n=3)
        return f"Near to it: {', '.join(close)}" if close else None
    by_channel = await gateway.query(channels, platforms, [name], recursive=False)
    versions = {record.version for records in by_channel for record in records}
    newest = [str(version) for version in sorted(versions, reverse=True)[:5]]
    return f"There is {', '.join(newest)}"


def _channels(file: CondaFile) -> list[Any]:
    """Return where packages are searched; a path starts from the file's directory."""
    import rattler  # noqa: PLC0415 - of an extra

    return [
        rattler.Channel(_placed(name, file) if name.startswith((".", "/", "~")) else name)
        for name in file.channels
    ]


def _placed(path: str, file: CondaFile) -> str:
    return Path(os.path.normpath(file.path.parent / expanded(path))).absolute().as_uri()


def _locked(file: CondaFile, platform: str) -> tuple[list[Any], Requirements | None]:
    """Return what a lock has for a platform: packages of conda's, and of pip's."""
    import rattler  # noqa: PLC0415 - of an extra

    lock = rattler.LockFile.from_path(file.path)
    for _, environment in sorted(lock.environments(), key=lambda pair: pair[0] != "default"):
        records = environment.conda_repodata_records().get(platform)
        if records:
            lines = tuple(
                f"{package.name} @ {package.location}"
                for package in environment.pypi_packages().get(platform, ())
            )
            return records, Requirements(lines) if lines else None
        has = sorted(str(found) for found in environment.platforms())
        raise RequestError(
            f"environment: {file.path}: it has nothing for {platform}",
            hint=f"It has {', '.join(has)}" if has else None,
        )
    raise RequestError(f"environment: {file.path}: it has no environment")


def _listed(file: CondaFile) -> list[Any]:
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
            place = _placed(place, file)
        packed = f"{name}-{version}-{build}{ending}"
        url = f"{place}/{subdir}/{packed}"
        records.append(rattler.RepoDataRecord(record, packed, url, place))
    if not records:
        raise RequestError(f"environment: {file.path}: no URL of a package follows @EXPLICIT")
    return records
