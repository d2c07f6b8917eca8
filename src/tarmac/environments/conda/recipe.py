"""Build conda environments with rattler."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import difflib
import hashlib
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tarmac.distribution import require
from tarmac.environments.conda.answers import refuse_silent
from tarmac.environments.conda.files import CondaFile, read_conda_file
from tarmac.environments.conda.problems import problem_of
from tarmac.environments.conda.records import channels_of, listed, locked, match_spec
from tarmac.environments.installer import install_into, requirement_files
from tarmac.environments.requirements import Requirements
from tarmac.errors import RequestError, TarmacError
from tarmac.files import parse_json, without_password, write_json, write_text

# A URL or channel with a login or a token in rattler's package records.
_LOGIN = re.compile(r'"(?:url|channel)":\s*"\w+://(?:[^"/]*@|[^"/]+/t/)')


@dataclasses.dataclass(frozen=True, kw_only=True)
class CondaRecipe:
    """A recipe for rattler; see `tarmac.environments.venvs.Recipe`.

    Attributes:
        key: Digest of everything that determines the packages, including the driver's CUDA version,
            the processor and the C library.
        file: Parsed file that lists the packages.
        environment: Name of the environment in a lock that has several. None: ``default``.
    """

    key: str
    file: CondaFile
    environment: str | None = None

    def install(self, path: Path) -> None:
        """Build the environment from scratch; ``requirements.txt`` is written last.

        Raises:
            RequestError: No channel has a package, packages conflict, or the lock has no packages
                for this platform.
            TarmacError: The build failed for another reason.
        """
        shutil.rmtree(path, ignore_errors=True)
        installed, pip = asyncio.run(_install(self.file, path, self.environment))
        if pip is not None:
            if not (path / "bin" / "python").exists():
                raise RequestError(
                    f"environment: {self.file.path}: pip packages need python among the conda "
                    "packages"
                )
            # A lock lists all dependencies itself.
            alone = ["--no-deps"] if self.file.form == "lock" else []
            with requirement_files(pip) as words:
                install_into(path, [*alone, *words])
        _hide_logins(path)
        named = {"CONDA_DEFAULT_ENV": self.file.name} if self.file.name else {}
        # The file in which conda itself keeps variables.
        write_json(path / "conda-meta" / "state", {"env_vars": named | dict(self.file.variables)})
        by_pip = () if pip is None else pip.lines
        lines = [*installed, *(f"pip: {without_password(line)}" for line in by_pip)]
        write_text(path / "requirements.txt", "".join(f"{line}\n" for line in lines))


def _hide_logins(path: Path) -> None:
    """Redact logins and tokens in the URLs of rattler's package records."""
    for file in path.glob("conda-meta/*.json"):
        text = file.read_text(encoding="utf-8")
        # Parsing is slow for large packages, and few files contain a login.
        if not _LOGIN.search(text):
            continue
        content = parse_json(text)
        for key in ("url", "channel"):
            if isinstance(content.get(key), str):
                content[key] = without_password(content[key])
        write_json(file, content)


def read_conda(path: Path, environment: str | None = None) -> CondaRecipe:
    """Return the recipe of an environment, with everything that determines its key.

    Args:
        path: File that lists the packages.
        environment: Name of the environment in a lock that has several. None: ``default``.

    Raises:
        RequestError: The file does not exist, or has an unknown form.
        MissingExtraError: rattler is not installed.
    """
    require("rattler")
    import rattler  # noqa: PLC0415 - of an extra

    file = read_conda_file(path, str(rattler.Subdir.current()))
    content = (
        file.text,
        # Relative paths depend on the file's directory.
        str(path.parent) if file.has_paths else "",
        file.pip.content() if file.pip is not None else "",
        file.platform,
        *([environment] if environment is not None else []),
        sorted(str(package.into_generic()) for package in rattler.VirtualPackage.detect()),
    )
    key = hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()
    return CondaRecipe(key=key, file=file, environment=environment)


async def _install(
    file: CondaFile, path: Path, environment: str | None
) -> tuple[list[str], Requirements | None]:
    """Install a file's conda packages; return their names and the requirements for pip."""
    import rattler  # noqa: PLC0415 - of an extra

    gateway, pip, where = rattler.Gateway(), file.pip, f"environment: {file.path}"
    try:
        if file.form == "yml":
            bases = [channel.base_url for channel in channels_of(file)]
            urls = [f"{base.rstrip('/')}/noarch/repodata.json.zst" for base in bases]
            await refuse_silent(urls, where)
            records = await _solve(file, gateway)
        else:
            is_lock = file.form == "lock"
            records, pip = locked(file, environment) if is_lock else (listed(file), pip)
            await refuse_silent((record.url for record in records), where)
        with _packages(records, path) as cache:
            await rattler.install(records, target_prefix=path, cache_dir=cache, show_progress=False)
    except _errors() as error:
        problem = problem_of(str(error), file.channels)
        hint = problem.hint
        if problem.missing:
            hint = await _near(problem.missing, gateway, file) or hint
        kind = RequestError if problem.is_request else TarmacError
        words = without_password(problem.words)
        raise kind(f"{where}: {words}", hint=hint) from error
    return [f"{r.name.normalized}={r.version}={r.build}" for r in records], pip


@contextlib.contextmanager
def _packages(records: Sequence[Any], path: Path) -> Iterator[Path | None]:
    """Yield the package cache: None for rattler's shared cache, else a temporary directory.

    The shared cache identifies a package by name, version, build and SHA-256. A package without
    SHA-256 could be confused with another package of the same name.
    """
    if all(record.sha256 for record in records):
        yield None
        return
    own = path.with_name(f"{path.name}.packages")
    shutil.rmtree(own, ignore_errors=True)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _errors() -> tuple[type[Exception], ...]:
    from rattler import exceptions  # noqa: PLC0415 - of an extra

    kinds = (value for value in vars(exceptions).values() if isinstance(value, type))
    return tuple(kind for kind in kinds if issubclass(kind, Exception))


async def _solve(file: CondaFile, gateway: Any) -> list[Any]:
    import rattler  # noqa: PLC0415 - of an extra

    specs = [match_spec(file, number) for number in range(len(file.specs))]
    if file.pip is not None and shutil.which("uv") is None:
        # conda also installs pip with each Python.
        specs.append(rattler.MatchSpec("pip"))
    return await rattler.solve(
        channels_of(file),
        specs,
        gateway=gateway,
        platforms=[file.platform, "noarch"],  # type: ignore[list-item]  # rattler names them itself
        virtual_packages=rattler.VirtualPackage.detect(),
    )


async def _near(name: str, gateway: Any, file: CondaFile) -> str | None:
    """Return a hint with the versions of a package, or with packages of similar names."""
    channels, platforms = channels_of(file), [file.platform, "noarch"]
    names = [package.normalized for package in await gateway.names(channels, platforms)]
    if name not in names:
        close = difflib.get_close_matches(name, names, n=3)
        return f"Similar: {', '.join(close)}" if close else None
    by_channel = await gateway.query(channels, platforms, [name], recursive=False)
    versions = {record.version for records in by_channel for record in records}
    newest = [str(version) for version in sorted(versions, reverse=True)[:5]]
    return f"Available: {', '.join(newest)}"
