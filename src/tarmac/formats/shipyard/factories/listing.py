"""Factories over files: the values of each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from tarmac.jobs import escape


def files_of(
    uris: Sequence[str], storage: Mapping[str, Any], where: str | None
) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Return the named values and the input of a task for each file.

    Args:
        uris: URIs of all files, ``az://CONTAINER/PATH``.
        storage: ``azure_storage`` of the factory. Its patterns match paths in the container.
        where: ``task_filepath``: kind of path under which a task finds its file. Default:
            ``file_path``.

    Raises:
        ValueError: A file's path for its task is not below the task's directory.
    """
    rows = []
    for uri in uris:
        whole = uri.removeprefix("az://")
        path = whole.partition("/")[2]
        includes, excludes = storage.get("include") or (), storage.get("exclude") or ()
        if includes and not any(p is not None and fnmatchcase(path, p) for p in includes):
            continue
        if any(p is not None and fnmatchcase(path, p) for p in excludes):
            continue
        name = PurePosixPath(path)
        named = {
            "file_path": path,
            "file_path_with_container": whole,
            "file_name": name.name,
            # "a" for a.fastq.gz.
            "file_name_no_extension": name.name.split(".")[0],
        }
        to = named[where or "file_path"]
        if ".." in PurePosixPath(to).parts or PurePosixPath(to).is_absolute() or not to:
            raise ValueError(f"{whole}: {to!r} is no path below a task's directory")
        rows.append((named, {"from": escape(uri), "to": escape(to)}))
    return rows
