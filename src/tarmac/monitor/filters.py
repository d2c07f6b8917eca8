"""Filters for the snapshot of a machine; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu
    from tarmac.monitor.options import WatchOptions
    from tarmac.monitor.snapshot import HostSnapshot, ProcessRow, Work


def filtered(
    host: HostSnapshot, options: WatchOptions, user: str, environment: Mapping[str, str]
) -> HostSnapshot:
    """Return the parts of a machine's snapshot that the options select.

    Args:
        host: Snapshot of the machine before filtering.
        options: Filters to apply: GPUs, users, processes, runs.
        user: Name of the user who runs the monitor, for `WatchOptions.mine`.
        environment: Environment with ``CUDA_VISIBLE_DEVICES``, for `WatchOptions.visible`.
    """
    host = _of_gpus(host, options, environment)
    users = (*options.user, *((user,) if options.mine else ()))
    if users:
        host = _narrowed(
            host,
            lambda work: (work.user or user if work.is_own else work.user) in users,
            lambda row: row.user in users,
        )
    if options.pid:
        works = {row.work for row in host.processes if row.pid in options.pid}
        host = _narrowed(
            host,
            lambda work: work.id in works or any(pid in options.pid for pid in work.pids),
            lambda row: row.pid in options.pid,
        )
    if options.run:
        named = {work.id for work in host.work if work.id.startswith(options.run)}
        host = _narrowed(
            host, lambda work: work.id in named, lambda row: row.work in named, with_parts=True
        )
        used = {uuid for work in host.work for uuid in work.gpu_uuids}
        host = _only(host, [gpu for gpu in host.gpus if gpu.uuid in used])
    return host


def _of_gpus(
    host: HostSnapshot, options: WatchOptions, environment: Mapping[str, str]
) -> HostSnapshot:
    visible = environment.get("CUDA_VISIBLE_DEVICES") if options.visible else None
    if not options.gpu and visible is None:
        return host
    gpus: Sequence[LiveGpu] = host.gpus
    if options.gpu:
        gpus = [gpu for gpu in gpus if _is_named(gpu, options.gpu)]
    if visible is not None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
        gpus = [gpu for gpu in gpus if _is_named(gpu, names)]
    uuids = {gpu.uuid for gpu in gpus}
    # This drops work without a GPU too.
    work = tuple(work for work in host.work if uuids.intersection(work.gpu_uuids))
    return dataclasses.replace(_only(host, gpus), work=work)


def _only(host: HostSnapshot, gpus: Sequence[LiveGpu]) -> HostSnapshot:
    """Keep some GPUs, with their states, processes and findings."""
    uuids = {gpu.uuid for gpu in gpus}
    return dataclasses.replace(
        host,
        gpus=tuple(gpus),
        gpu_states={u: state for u, state in host.gpu_states.items() if u in uuids},
        gpu_idle_s={u: idle_s for u, idle_s in host.gpu_idle_s.items() if u in uuids},
        processes=tuple(row for row in host.processes if row.gpu_uuid in uuids),
        findings=tuple(f for f in host.findings if f.gpu_uuid is None or f.gpu_uuid in uuids),
    )


def _is_named(gpu: LiveGpu, names: Sequence[str]) -> bool:
    """Return whether a name is a GPU's index, or the beginning of its or its parent's UUID."""
    for name in names:
        if name.isdecimal():
            if int(name) == gpu.index:
                return True
        elif gpu.uuid.startswith(name) or (gpu.parent_uuid or "").startswith(name):
            return True
    return False


def _narrowed(
    host: HostSnapshot,
    is_work: Callable[[Work], bool],
    is_row: Callable[[ProcessRow], bool],
    *,
    with_parts: bool = False,
) -> HostSnapshot:
    """Keep the selected work with its ancestors, and processes that are selected or of that work.

    ``with_parts`` also selects all parts of the selected work.
    """
    by_id = {work.id: work for work in host.work}
    kept = {work.id for work in host.work if is_work(work)}
    if with_parts:
        while more := {w.id for w in host.work if w.parent in kept} - kept:
            kept |= more
    shown = set(kept)
    for name in kept:
        at = by_id[name].parent
        while at is not None and at in by_id and at not in shown:
            shown.add(at)
            at = by_id[at].parent
    return dataclasses.replace(
        host,
        processes=tuple(row for row in host.processes if is_row(row) or row.work in kept),
        work=tuple(work for work in host.work if work.id in shown),
    )
