"""Files that tell NVIDIA's dcgm-exporter which runs use which GPU.

Its option ``--hpc-job-mapping-dir`` names a directory with a file for each GPU, called by its
index, with a job in each line; they become the label ``hpc_job`` of that GPU's metrics.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tarmac.files import storage_errors, write_text

if TYPE_CHECKING:
    from pathlib import Path

    from tarmac.monitor.snapshot import HostSnapshot, Snapshot


class JobMap:
    """Keeps a file for each GPU of this machine that a run uses; a `Tap`.

    A file is replaced whole, and only when what it says changes. Files of others are left alone
    but for those of a GPU that a run of ours uses. At the end ours are removed.

    Args:
        directory: Where; made if it is not there.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._written: dict[str, str] = {}

    def take(self, snapshot: Snapshot) -> str:
        """Write what has changed.

        Raises:
            StorageError: It could not be written; it is tried again with the next snapshot.
        """
        wanted: dict[str, str] = {}
        for host in snapshot.hosts:
            if host.host.name == os.uname().nodename and not host.problem:
                wanted = _texts(host)
        for name in tuple(self._written):
            if name not in wanted:
                self._remove(name)
        for name, text in wanted.items():
            if self._written.get(name) != text:
                write_text(self._directory / name, text)
                self._written[name] = text
        return ""

    def close(self) -> None:
        """Remove the files that were written.

        Raises:
            StorageError: One could not be removed.
        """
        for name in tuple(self._written):
            self._remove(name)

    def _remove(self, name: str) -> None:
        path = self._directory / name
        with storage_errors(path):
            path.unlink(missing_ok=True)
        del self._written[name]


def _texts(host: HostSnapshot) -> dict[str, str]:
    """Return what each GPU's file says; that of a slice is its GPU's, whose index it has."""
    runs: dict[str, list[str]] = {}
    for gpu in host.gpus:
        for work in host.work:
            # A run of several parts is told by those that use the GPU.
            has_parts = any(
                other.parent == work.id and gpu.uuid in other.gpu_uuids for other in host.work
            )
            if gpu.uuid in work.gpu_uuids and not has_parts:
                runs.setdefault(str(gpu.index), []).append(" ".join(work.id.split()))
    return {name: "".join(f"{run}\n" for run in dict.fromkeys(ids)) for name, ids in runs.items()}
