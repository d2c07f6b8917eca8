"""Files that map GPUs to runs, for NVIDIA's dcgm-exporter.

Its option ``--hpc-job-mapping-dir`` names a directory with a file for each GPU, named by the GPU's
index, with a job on each line. The jobs become the label ``hpc_job`` of that GPU's metrics.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.files import storage_errors, write_text

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import HostSnapshot, Snapshot


class JobMap:
    """A `Tap` that keeps a file for each GPU of this machine that a run uses.

    A file is replaced as a whole, and only when its content changes. Files of others stay, except
    for GPUs that a run of Tarmac uses. `close` removes the files that the tap wrote.

    Args:
        directory: Directory of the files. Created if missing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._written: dict[str, str] = {}

    def take(self, snapshot: Snapshot) -> str:
        """Write the files that have changed.

        Raises:
            StorageError: A file could not be written; the next snapshot retries it.
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
            StorageError: A file could not be removed.
        """
        for name in tuple(self._written):
            self._remove(name)

    def _remove(self, name: str) -> None:
        path = self._directory / name
        with storage_errors(path):
            path.unlink(missing_ok=True)
        del self._written[name]


def _texts(host: HostSnapshot) -> dict[str, str]:
    """Return the content of each file by name; slices share the file of their GPU's index."""
    runs: dict[str, list[str]] = {}
    for gpu in host.gpus:
        for work in host.work:
            # For a run of several parts, the file lists the parts that use the GPU.
            has_parts = any(
                other.parent == work.id and gpu.uuid in other.gpu_uuids for other in host.work
            )
            if gpu.uuid in work.gpu_uuids and not has_parts:
                runs.setdefault(str(gpu.index), []).append(" ".join(work.id.split()))
    return {name: "".join(f"{run}\n" for run in dict.fromkeys(ids)) for name, ids in runs.items()}
