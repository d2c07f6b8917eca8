"""Rules on limits that several processes need, and on their all-reduces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence
    from tarmac.checks.rules.rule import Hits, Rule

_SMALL_SHM = 512 * 2**20


def _shm_small(evidence: Evidence) -> Hits:
    size = evidence.inventory.limits.shm_bytes
    if size is not None and size < _SMALL_SHM:
        yield "machine", f"/dev/shm has {size / 2**20:.0f} MiB"  # noqa: S108 - no file is put there


def _memlock(evidence: Evidence) -> Hits:
    limits = evidence.inventory.limits
    if limits.infiniband and limits.memlock_bytes is not None:
        yield "machine", f"{limits.memlock_bytes / 2**20:.1f} MiB"


def _problems(evidence: Evidence, kind: str) -> Hits:
    for probe in evidence.probes:
        judged = probe.result.get("all_reduce")
        if judged is not None and judged.get("problem") == kind:
            yield probe.label, judged["detail"]


def _all_reduce_wrong(evidence: Evidence) -> Hits:
    yield from _problems(evidence, "wrong")


def _all_reduce_hung(evidence: Evidence) -> Hits:
    yield from _problems(evidence, "hung")


RULES: Mapping[str, Rule] = {
    "shm-small": _shm_small,
    "memlock": _memlock,
    "all-reduce-wrong": _all_reduce_wrong,
    "all-reduce-hung": _all_reduce_hung,
}
