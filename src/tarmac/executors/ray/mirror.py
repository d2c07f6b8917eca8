"""Brings agents' files to the run's directory from nodes that do not see it.

Ray copies this module's classes to the nodes, as those of `worker`.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

_MAX_BYTES = 64 * 2**10


class Mirror:
    """Writes agents' files to the run's directory, for nodes that do not see the directory.

    An actor on the runner's machine.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str, str], int] = {}

    def append(self, nonce: str, directory: str, name: str, data: bytes) -> None:
        """Append to a file of an attempt."""
        del nonce
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)

    def put(self, directory: str, number: int, nonce: str, data: bytes) -> str:
        """Replace an attempt's record; return why its program must end, empty for no reason."""
        path = Path(directory, f"attempt-{number}.json")
        with contextlib.suppress(FileNotFoundError):
            record = json.loads(path.read_bytes())
            if record["nonce"] != nonce or record["state"] == "fenced":
                return "its runner abandoned it"
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
        new.write_bytes(data)
        new.replace(path)
        fence = Path(directory, f"attempt-{number}.fence")
        return fence.read_text(encoding="utf-8") or "fenced" if fence.exists() else ""


class Copy:
    """Copies the files that an agent writes on this node to the runner's mirror."""

    def __init__(self, mirror: Any, element: dict[str, Any], place: Path, host: str) -> None:
        self._mirror = mirror
        self._target = element["directory"]
        self._element = element
        self._place = place
        self._host = host
        self._sent: dict[str, int] = {}
        self._record = b""

    def carry(self) -> str:
        """Send new content; return why the program must end, empty for no reason."""
        import ray  # noqa: PLC0415 - only workers have it for sure

        # Read the record first: no output follows a record of the end.
        record, number, nonce = b"", self._element["number"], self._element["nonce"]
        with contextlib.suppress(FileNotFoundError):
            record = (self._place / f"attempt-{number}.json").read_bytes()
        for path in sorted(self._place.glob("std*")):
            with path.open("rb") as file:
                file.seek(self._sent.get(path.name, 0))
                while data := file.read(_MAX_BYTES):
                    ray.get(self._mirror.append.remote(nonce, self._target, path.name, data))
                    self._sent[path.name] = self._sent.get(path.name, 0) + len(data)
        if record in (b"", self._record):
            return ""
        self._record = record
        words: str = ray.get(self._mirror.put.remote(self._target, number, nonce, record))
        return words
