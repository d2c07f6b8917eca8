"""What is known of a stage: one JSON file each, written whole or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PASSED, FAILED, SKIPPED, OUT_OF_TIME = "passed", "failed", "skipped", "out of time"
# It was ended from outside: by the end of the budget, or by a signal.
UNFINISHED = "unfinished"
STATUSES = (PASSED, FAILED, SKIPPED, OUT_OF_TIME, UNFINISHED)


@dataclasses.dataclass(frozen=True)
class Record:
    """How a stage ended.

    Attributes:
        stage: Its name.
        status: One of `STATUSES`.
        why: What failed, what was missing; empty where it passed.
        seconds: How long it ran.
        device: The GPU's name.
        driver: The driver's version.
        torch: PyTorch's version.
        source: A fingerprint of the files that the result rests on.
        commit: The commit, where git knows one.
        dirty: Whether files differed from it.
        date: When it ended, in ISO 8601.
        result: What it measured; of a stage that did not pass, what it had measured so far.
        errors: The tracebacks of its parts that failed.
        machine: Its facts when the stage began.
        output: The end of what it printed, where it did not pass.
    """

    stage: str
    status: str
    why: str
    seconds: float
    device: str
    driver: str
    torch: str
    source: str
    commit: str | None
    dirty: bool | None
    date: str
    result: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    errors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    machine: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    output: str = ""

    def holds_for(self, source: str, device: str, torch: str) -> bool:
        """Whether it says something of this source on this GPU with this PyTorch."""
        return (self.source, self.device, self.torch) == (source, device, torch)


def record_of(fields: Mapping[str, Any]) -> Record:
    """Read a record.

    Raises:
        ValueError: It is none.
    """
    try:
        record = Record(**fields)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if record.status not in STATUSES or not isinstance(record.stage, str):
        raise ValueError(f"status is {record.status!r}, expected one of {STATUSES}")
    return record


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file that is there as a whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


class Records:
    """The records of a directory.

    Args:
        directory: Where each is, as ``STAGE.json``.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self) -> dict[str, Record]:
        """Return all, by stage; a damaged one counts as none."""
        found = {}
        for path in sorted(self._directory.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError):
                record = record_of(json.loads(path.read_text(encoding="utf-8")))
                found[record.stage] = record
        return found

    def write(self, record: Record) -> None:
        """Keep a record in place of an earlier one."""
        text = json.dumps(dataclasses.asdict(record), indent=2)
        write_whole(self._directory / f"{record.stage}.json", text + "\n")

    def as_text(self) -> str:
        """Return all as one JSON document."""
        stages = {name: dataclasses.asdict(record) for name, record in self.read().items()}
        return json.dumps({"stages": stages}, indent=2) + "\n"

    def take(self, text: str, known: Mapping[str, Record]) -> int:
        """Keep the records of `as_text` that are newer than those that are known.

        Returns:
            How many.

        Raises:
            ValueError: It is no such document.
        """
        try:
            found = [record_of(fields) for fields in json.loads(text)["stages"].values()]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it has no stages: {error}") from None
        newer = [r for r in found if r.stage not in known or known[r.stage].date < r.date]
        for record in newer:
            self.write(record)
        return len(newer)


def fingerprint(root: Path, patterns: Iterable[str]) -> str:
    """Return a name for the content of all files that match patterns below a directory."""
    digest = hashlib.sha256()
    files = {path for pattern in patterns for path in root.glob(pattern)}
    for path in sorted(files):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(root)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def commit_of(root: Path) -> tuple[str | None, bool | None]:
    """Return the commit of a checkout and whether it has changes; None for both without git."""

    def ask(*words: str) -> str | None:
        command = ["git", "-C", str(root), *words]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
            return done.stdout.strip()
        return None

    commit = ask("rev-parse", "HEAD")
    changes = ask("status", "--porcelain", "--untracked-files=no", "--", "src", "bench", "tests")
    return commit, None if commit is None or changes is None else bool(changes)
