"""Relations in a snapshot: GPUs and their work, parts and their parents."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tarmac.monitor.ranks import merged_ranks

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu
    from tarmac.monitor.snapshot import HostSnapshot, ProcessRow, Work


@dataclasses.dataclass(frozen=True)
class OwnedWork:
    """Work with its hosts and its depth below its ancestors."""

    work: Work
    hosts: tuple[HostSnapshot, ...]
    depth: int = 0


class HostFacts:
    """A host's snapshot, indexed by GPU.

    Args:
        host: Snapshot of the host to look up.
    """

    def __init__(self, host: HostSnapshot) -> None:
        self.host = host
        parents = {work.parent for work in host.work}
        self._first: dict[str, list[Work]] = {}
        self._all: dict[str, list[Work]] = {}
        known = [gpu.uuid for gpu in host.gpus]
        self.elsewhere: list[Work] = []
        for work in host.work:
            on = [uuid for uuid in known if uuid in work.gpu_uuids]
            # For a search and its training on one GPU, only the training is shown there.
            is_shown = work.id not in parents or not any(
                set(on) & set(part.gpu_uuids) for part in host.work if part.parent == work.id
            )
            if not on:
                self.elsewhere.append(work)
            elif is_shown:
                self._first.setdefault(on[0], []).append(work)
                for uuid in on:
                    self._all.setdefault(uuid, []).append(work)
        self._processes: dict[str, list[ProcessRow]] = {}
        for process in host.processes:
            self._processes.setdefault(process.gpu_uuid, []).append(process)

    def work_on(self, uuid: str) -> Sequence[Work]:
        """Return the work on a GPU."""
        return self._all.get(uuid, ())

    def work_first_on(self, uuid: str) -> Sequence[Work]:
        """Return the work that has this GPU as its first GPU on this host."""
        return self._first.get(uuid, ())

    def processes_on(self, uuid: str) -> Sequence[ProcessRow]:
        """Return the processes of all users on a GPU."""
        return self._processes.get(uuid, ())

    def labels_of(self, work: Work) -> str:
        """Return the labels of a work's GPUs, such as ``0-3,6``; ``-`` without a GPU here."""
        gpus = [gpu for gpu in self.host.gpus if gpu.uuid in work.gpu_uuids]
        whole = sorted({gpu.index for gpu in gpus if gpu.parent_uuid is None})
        slices = [gpu_label(gpu, self.host.gpus) for gpu in gpus if gpu.parent_uuid is not None]
        return ",".join([*_ranges(whole), *slices]) or "-"


def gpu_label(gpu: LiveGpu, gpus: Sequence[LiveGpu]) -> str:
    """Return a GPU's index; for a slice, its GPU's index and its number among the slices."""
    if gpu.parent_uuid is None:
        return str(gpu.index)
    siblings = [other.uuid for other in gpus if other.parent_uuid == gpu.parent_uuid]
    return f"{gpu.index}.{siblings.index(gpu.uuid)}"


def all_work(hosts: Sequence[HostSnapshot]) -> list[OwnedWork]:
    """Return the work of all hosts, each part below its parent.

    Work on several hosts under one name is merged. The host that knows its epoch takes precedence.
    The ranks of all hosts are merged, the slowest first.
    """
    works: dict[str, OwnedWork] = {}
    for host in hosts:
        for work in host.work:
            before = works.get(work.id)
            if before is None:
                works[work.id] = OwnedWork(work, (host,))
            else:
                leading, other = before.work, work
                if leading.epoch is None and other.epoch is not None:
                    leading, other = other, leading
                ranks = merged_ranks((leading.ranks, other.ranks))
                works[work.id] = OwnedWork(
                    dataclasses.replace(leading, ranks=ranks), (*before.hosts, host)
                )
    parts: dict[str | None, list[OwnedWork]] = {}
    for owned in works.values():
        parent = owned.work.parent if owned.work.parent in works else None
        parts.setdefault(parent, []).append(owned)
    return [*_below(None, parts, 0)]


def _below(
    parent: str | None, parts: dict[str | None, list[OwnedWork]], depth: int
) -> Iterator[OwnedWork]:
    # `pop` removes each entry, so that a cycle of parents ends.
    for owned in parts.pop(parent, []):
        yield dataclasses.replace(owned, depth=depth)
        yield from _below(owned.work.id, parts, depth + 1)


def _ranges(numbers: Sequence[int]) -> list[str]:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return [
        str(low) if low == high else f"{low}{'-' if high > low + 1 else ','}{high}"
        for low, high in ranges
    ]
