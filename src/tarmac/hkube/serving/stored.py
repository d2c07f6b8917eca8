"""A run that lies in an object store, brought here to be gone on with."""

from __future__ import annotations

import secrets
import shutil
from typing import TYPE_CHECKING

from tarmac.files import get_object, list_objects, storage_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["fetch_run"]

_RECORD = "run.json"


def fetch_run(uri: str, path: Path, environment: Mapping[str, str]) -> None:
    """Download a run's directory, whole or not at all, where there is one.

    Args:
        uri: Of the directory.
        path: Where it belongs; not there yet.
        environment: Usually ``os.environ``.

    Raises:
        TarmacError: The store does not give it.
        StorageError: It cannot be written.
    """
    names = {found.removeprefix(f"{uri}/"): found for found in list_objects(uri, environment)}
    if _RECORD not in names:
        return
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with storage_errors(part):
            for name, found in names.items():
                target = part / name
                target.parent.mkdir(parents=True, exist_ok=True)
                get_object(found, target, environment)
            (part / "checkpoints").mkdir(exist_ok=True)
            part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
