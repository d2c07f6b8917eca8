"""Fingerprints of a run's secrets, by which other processes redact the secrets.

The marks are in the run's directory, readable for its owner alone. Their key is in the user's state
directory. `tarmac.masking.values` explains why neither reveals a secret.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path

import platformdirs

from tarmac.errors import TarmacError
from tarmac.files import parse_json, read_regular, write_text
from tarmac.masking import fingerprints, learn, num_remembered

_FILE = "secret-marks.json"
_SCHEMA_VERSION = 1
_KEY_BYTES = 32
# Maximum depth of a log below its run's directory.
_MAX_DEPTH = 5

# By run: the modification time of the marks that this process has read, and the number of encodings
# that it has written marks of.
_read: dict[Path, int] = {}
_left: dict[Path, int] = {}


def leave_marks(run: Path) -> None:
    """Add marks of the secrets that this process has resolved to those of a run.

    Write errors are ignored: pages then recognise secrets by their forms alone.

    Args:
        run: Directory of the run, which holds the file of marks.
    """
    num_known = num_remembered()
    if _left.get(run, 0) == num_known:
        return
    _left[run] = num_known
    with contextlib.suppress(OSError, TarmacError, ValueError):
        if (key := _key(is_made=True)) is None:
            return
        before = _marks_in(run)
        marks = sorted({*before, *fingerprints(key)})
        if marks != before:
            content = {"schema_version": _SCHEMA_VERSION, "marks": marks}
            write_text(run / _FILE, json.dumps(content, indent=0) + "\n", is_private=True)


def learn_marks(path: Path) -> None:
    """Redact the secrets of a run in all output of this process from now on.

    Args:
        path: Directory of the run, or a file in it.
    """
    for directory in (path, *path.parents)[:_MAX_DEPTH]:
        with contextlib.suppress(OSError, TarmacError, ValueError):
            changed = (directory / _FILE).stat().st_mtime_ns
            if _read.get(directory) != changed and (key := _key(is_made=False)) is not None:
                learn(key, _marks_in(directory))
                _read[directory] = changed
            return


def _marks_in(run: Path) -> list[str]:
    try:
        content = parse_json(read_regular(run / _FILE))
    except FileNotFoundError:
        return []
    marks = content.get("marks") if isinstance(content, dict) else None
    return [mark for mark in marks if isinstance(mark, str)] if isinstance(marks, list) else []


def _key(*, is_made: bool) -> bytes | None:
    """Return the user's key; None where it is missing and is not to be made."""
    path = platformdirs.user_state_path("tarmac") / "secret-marks.key"
    if is_made and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{secrets.token_hex(8)}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
            # Of several processes, the first sets the key.
            with contextlib.suppress(FileExistsError):
                os.link(part, path)
        finally:
            part.unlink()
    try:
        key = read_regular(path)
    except FileNotFoundError:
        return None
    return key if len(key) == _KEY_BYTES else None
