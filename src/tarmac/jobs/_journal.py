"""What has happened to the tasks of a run, as lines that survive their writer."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from tarmac.errors import TarmacError
from tarmac.storage import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

__all__ = ["Journal", "read_journal"]


class Journal:
    """Appends events to a file; each is in the kernel's hands when `write` returns.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Journal:
        _drop_torn_line(self._path)
        with storage_errors(self._path):
            self._file = self._path.open("ab", buffering=0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, event: str, **values: Any) -> None:
        """Append an event.

        Raises:
            StorageError: It could not be written.
        """
        assert self._file is not None
        line = json.dumps({"event": event, **values}, separators=(",", ":")) + "\n"
        with storage_errors(self._path):
            self._file.write(line.encode())


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield a journal's events; a last line that was torn by its writer's end is left out.

    Raises:
        TarmacError: A line before the last is damaged.
    """
    with storage_errors(path):
        content = path.read_bytes()
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            event = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                return
            raise TarmacError(f"{path}:{number}: the journal is damaged: {error}") from error
        yield event


def _drop_torn_line(path: Path) -> None:
    if not path.exists():
        return
    with storage_errors(path), path.open("r+b") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
