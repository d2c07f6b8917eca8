"""Prints what tasks print while they print it."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Tail"]


class Tail:
    """Follows a file that grows, and may not be there yet.

    Args:
        path: The file.
        emit: Gets every whole line, without its end.
        skip_bytes: What it does not show: what was there before.
    """

    def __init__(self, path: Path, emit: Callable[[str], None], *, skip_bytes: int = 0) -> None:
        self._path = path
        self._emit = emit
        self._skip_bytes = skip_bytes
        self._file: IO[bytes] | None = None
        self._rest = b""

    def read(self) -> None:
        """Emit the lines that have come since."""
        if self._file is None:
            if not self._path.exists():
                return
            self._file = self._path.open("rb")
            self._file.seek(self._skip_bytes)
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            self._emit(line.decode(errors="replace"))

    def close(self) -> None:
        """Emit what is left, a last line without an end too."""
        self.read()
        if self._rest:
            self._emit(self._rest.decode(errors="replace"))
            self._rest = b""
        if self._file is not None:
            self._file.close()
