"""What travels from a machine with a GPU to another: at most six files, and the way back in."""

from __future__ import annotations

import io
import re
import tarfile
from typing import TYPE_CHECKING

from gpu_driver.records import Records, write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

RESULTS, STATE, LOG = "results.tar.gz", "state.json", "log.txt"
# What stages leave beside their results.
ARTIFACTS = ("junit.xml", "check.json", "anatomy.json")
# Where stages may put files of the repository.
_ALLOWED = re.compile(
    r"bench/results/[a-z0-9][a-z0-9.-]*\.(json|md)|tests/checks/machines/[a-z0-9][a-z0-9-]*\.txt"
)
_LOG_BYTES = 4 * 2**20


class NotAdoptableError(Exception):
    """A directory does not hold what `fill` writes."""


def is_result(name: str) -> bool:
    """Whether a path below the repository is one that a stage may write."""
    return _ALLOWED.fullmatch(name) is not None


def results_below(directory: Path) -> dict[str, bytes]:
    """Return the files of the repository that stages have left below a directory, by path."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    named = {path.relative_to(directory).as_posix(): path for path in files}
    return {name: path.read_bytes() for name, path in named.items() if is_result(name)}


def fill(out: Path, records: Records, work: Path, log: str) -> None:
    """Write everything to a directory, each file whole.

    Args:
        out: The directory.
        records: Of the stages.
        work: With ``results/`` and ``artifacts/``.
        log: What was printed.

    Raises:
        OSError: A file cannot be written; the others are.
    """
    contents: dict[str, str | bytes] = {STATE: records.as_text()}
    contents[RESULTS] = _packed(results_below(work / "results"))
    for name in ARTIFACTS:
        if (path := work / "artifacts" / name).exists():
            contents[name] = path.read_bytes()
    contents[LOG] = log.encode()[-_LOG_BYTES:]
    failure = None
    for name, data in contents.items():
        try:
            write_whole(out / name, data)
        except OSError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def adopt(directory: Path, root: Path, records: Records, work: Path) -> Sequence[str]:
    """Take what `fill` wrote into a checkout.

    Returns:
        The files of the repository that were written.

    Raises:
        NotAdoptableError: It is not what `fill` writes; nothing was taken.
    """
    try:
        state = (directory / STATE).read_text(encoding="utf-8")
        results = _unpacked((directory / RESULTS).read_bytes())
        records.take(state, records.read())
    except (OSError, ValueError, tarfile.TarError, EOFError) as error:
        raise NotAdoptableError(
            f"{directory} is not what `make gpu OUT=...` writes: {error}"
        ) from error
    for name, data in results.items():
        write_whole(root / name, data)
        write_whole(work / "results" / name, data)
    for name in ARTIFACTS:
        if (path := directory / name).exists():
            write_whole(work / "artifacts" / name, path.read_bytes())
    return list(results)


def _packed(files: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return written.getvalue()


def _unpacked(data: bytes) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive:
            if not member.isreg() or not is_result(member.name):
                raise ValueError(f"{RESULTS} holds {member.name!r}, which no stage writes")
            file = archive.extractfile(member)
            assert file is not None
            found[member.name] = file.read()
    return found
