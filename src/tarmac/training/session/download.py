"""Download of a run from an object store, to resume it here."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tarmac.errors import TarmacError
from tarmac.files import (
    get_object,
    list_objects,
    parse_json,
    read_object,
    replace_directory,
    storage_errors,
    temporary_path,
)
from tarmac.runs import Run
from tarmac.training.session.checkpoint import newest_checkpoint
from tarmac.training.session.upload import RECORD
from tarmac.training.shard_directories import POSITION, SHARDED

_CHECKPOINTS = "checkpoints"


def fetch_run(uri: str, path: Path) -> bool:
    """Download a run's directory, whole or not at all, if the store has a newer state.

    Args:
        uri: URI of the run's directory in the store.
        path: Directory of the run here. An existing run is replaced if the store has a newer
            checkpoint and no process works on the run.

    Returns:
        Whether the run was downloaded.

    Raises:
        TarmacError: The store cannot be read.
        StorageError: The directory cannot be written.
    """
    uri = uri.rstrip("/")
    try:
        names = {source.removeprefix(f"{uri}/"): source for source in list_objects(uri, os.environ)}
    except TarmacError:
        if (path / RECORD).exists():
            # The upload reports this error, and retries.
            return False
        raise
    # Shards without a position are incomplete: their upload or removal was interrupted.
    torn = {
        name
        for name in names
        for entry, mark, _ in [name.partition(f"{SHARDED}/")]
        if mark and f"{entry}{mark}{POSITION}" not in names
    }
    names = {name: names[name] for name in names.keys() - torn}
    if RECORD not in names or ((path / RECORD).exists() and not _is_ahead(names, path)):
        return False
    part = temporary_path(path.parent)
    try:
        with storage_errors(part):
            for name, source in sorted(names.items()):
                target = part / name
                target.parent.mkdir(parents=True, exist_ok=True)
                get_object(source, target, os.environ)
            (part / _CHECKPOINTS).mkdir(exist_ok=True)
            replace_directory(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return True


def _is_ahead(names: Mapping[str, str], path: Path) -> bool:
    """Return whether the store has a newer checkpoint of the same run than the directory."""
    run = Run.open(path)
    here = newest_checkpoint(run.checkpoints)
    numbered = (name.split("/")[1] for name in names if name.startswith(f"{_CHECKPOINTS}/epoch-"))
    if max(numbered, default="") <= (here.name if here else "") or run.status == "running":
        return False
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return bool(
            parse_json(read_object(names[RECORD], os.environ) or b"")["id"] == run.record.id
        )
    return False
