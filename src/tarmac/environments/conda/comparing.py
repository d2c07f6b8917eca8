"""Compare an existing conda environment with a file."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from tarmac.distribution import require
from tarmac.environments.conda.files import CondaFile, read_conda_file
from tarmac.environments.conda.records import listed, locked, match_spec
from tarmac.errors import RequestError, quoted

# Commands that update an environment to its file, by the file's form.
_UPDATES = {
    "yml": "conda env update --prefix {prefix} --file {file}",
    "explicit": "conda install --prefix {prefix} --file {file}",
}


def refuse_difference(prefix: Path, path: Path) -> None:
    """Raise a RequestError if an environment lacks a package of a file, or has another version.

    Further packages of the environment are ignored.

    Args:
        prefix: Directory of the existing conda environment.
        path: File to compare with, of any form that `read_conda_file` reads.
    """
    require("rattler")
    import rattler  # noqa: PLC0415 - of an extra

    file = read_conda_file(path, str(rattler.Subdir.current()))
    # rattler's type stubs lack the class.
    read: Any = rattler.PrefixRecord.from_path
    records = [read(entry) for entry in prefix.glob("conda-meta/*.json")]
    here = {record.name.normalized: record for record in records}
    differences = [*_of_specs(file, here), *_of_pip(file, prefix)]
    if not differences:
        return
    more = f", and {len(differences) - 1} more" if len(differences) > 1 else ""
    update = _UPDATES.get(file.form, "").format(prefix=quoted(prefix), file=quoted(path))
    raise RequestError(
        f"environment: {prefix} differs from {path}: {differences[0]}{more}",
        hint=f"Update it: {update}" if update else None,
    )


def _of_specs(file: CondaFile, here: dict[str, Any]) -> Iterator[str]:
    import rattler  # noqa: PLC0415 - of an extra

    if file.form == "yml":
        # The channel of an installed package does not matter.
        names = tuple(spec.rpartition("::")[2] for spec in file.specs)
        specs = dataclasses.replace(file, specs=names)
        wanted = [(text, match_spec(specs, number)) for number, text in enumerate(file.specs)]
    else:
        records = listed(file) if file.form == "explicit" else locked(file)[0]
        exact = [f"{r.name.normalized}=={r.version}={r.build}" for r in records]
        wanted = [(text, rattler.MatchSpec(text)) for text in exact]
    for text, spec in wanted:
        name = spec.name.normalized
        if name not in here:
            yield f"it has no {name}"
        elif not spec.matches(here[name]):
            yield f"it has {name} {here[name].version}, not {text}"


def _of_pip(file: CondaFile, prefix: Path) -> Iterator[str]:
    places = [str(path) for path in prefix.glob("lib/python*/site-packages")]
    versions = {
        _normal(distribution.metadata["Name"]): distribution.version
        for distribution in importlib.metadata.distributions(path=places)
    }
    for wanted in _requirements(file.pip.lines if file.pip else ()):
        version = versions.get(_normal(wanted.name))
        if version is None:
            yield f"it has no {wanted.name}"
        elif not wanted.specifier.contains(version, prereleases=True):
            yield f"it has {wanted.name} {version}, not {wanted}"


def _requirements(lines: Iterable[str]) -> Iterator[Requirement]:
    """Yield the requirements that name a package and whose marker applies."""
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            # The line is an option or a path.
            continue
        if requirement.marker is None or requirement.marker.evaluate():
            yield requirement


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
