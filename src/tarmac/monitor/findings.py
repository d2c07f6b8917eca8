"""Errors of GPUs since the first look; `last_check` has the findings of the last check.

Errors come from the kernel's log and NVIDIA's driver, and from counters of memory errors and
replaced rows that grew since the first look. They stay until the monitor ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tarmac.monitor.snapshot import Finding

if TYPE_CHECKING:
    from datetime import datetime

    from tarmac.checks import KernelNews
    from tarmac.machine import LiveGpu

# A broken card may report new errors for ever.
_MAX_FINDINGS = 200


def findings_of_news(news: Sequence[KernelNews], gpus: Sequence[LiveGpu]) -> tuple[Finding, ...]:
    """Return findings for errors of GPUs, each with its meaning and a command.

    Errors of programs alone are notes: they say nothing about the GPU. Errors of other GPUs are
    left out.
    """
    if not news:
        return ()
    # The catalogue is imported only when there is an error to look up.
    from tarmac.checks import find_failure  # noqa: PLC0415

    names = {gpu.uuid: f"GPU {gpu.index}" for gpu in gpus}
    cards = {
        gpu.pci_address.rpartition(".")[0]: gpu.uuid
        for gpu in gpus
        if gpu.pci_address is not None and gpu.parent_uuid is None
    }
    findings = []
    for item in news:
        uuid = item.gpu_uuid
        if uuid is None and item.address is not None:
            uuid = cards.get(item.address)
        if item.number is None and uuid is None:
            # The error is of a program without a GPU, or of another card.
            continue
        failure = find_failure(item.code)
        where = f"{names[uuid]}: " if uuid in names else ""
        action = f" ({item.action})" if item.action else ""
        whom = f", pid {item.pid} {item.process or ''}".rstrip() if item.pid is not None else ""
        findings.append(
            Finding(
                code="xid" if item.words.startswith("Xid ") else item.code,
                level=failure.level,
                text=f"{where}{item.words}{whom}{action}",
                command=failure.fix[0] if failure.fix else "",
                gpu_uuid=uuid,
                at=item.at,
            )
        )
    return tuple(findings)


@dataclasses.dataclass(frozen=True)
class _Counted:
    uncorrected: int | None
    remaps: int | None


@dataclasses.dataclass(frozen=True)
class Watchlist:
    """The findings since the first look.

    Attributes:
        findings: Findings in the order of their arrival.
        counted: Counters of each GPU at the last look, by UUID.
    """

    findings: tuple[Finding, ...] = ()
    counted: Mapping[str, _Counted] = dataclasses.field(default_factory=dict)

    def advanced(
        self, gpus: Sequence[LiveGpu], xids: Sequence[Finding], now: datetime
    ) -> Watchlist:
        """Return the watchlist after a look.

        Args:
            gpus: GPUs as of this look.
            xids: Errors since the previous look, from `findings_of_news`.
            now: Time of this look, UTC.
        """
        findings = [*self.findings, *xids]
        counted = dict(self.counted)
        for gpu in gpus:
            before = counted.get(gpu.uuid)
            if before is not None:
                findings += _grown(gpu, before, now)
            known = before or _Counted(None, None)
            counted[gpu.uuid] = _Counted(
                _latest(gpu.uncorrected_errors, known.uncorrected),
                _latest(gpu.row_remaps, known.remaps),
            )
        return Watchlist(tuple(findings[-_MAX_FINDINGS:]), counted)


def _grown(gpu: LiveGpu, before: _Counted, now: datetime) -> list[Finding]:
    name = f"GPU {gpu.index}"
    reset = f"sudo nvidia-smi -r -i {gpu.index}"
    findings = []
    if (more := _growth(before.uncorrected, gpu.uncorrected_errors)) > 0:
        text = f"{name}: {more} memory errors that ECC could not correct"
        findings.append(Finding("ecc", "failure", text, reset, gpu.uuid, now))
    if (more := _growth(before.remaps, gpu.row_remaps)) > 0:
        text = f"{name}: {more} memory rows replaced; it takes effect when the GPU is reset"
        findings.append(Finding("row-remap", "warning", text, reset, gpu.uuid, now))
    return findings


def _growth(before: int | None, now: int | None) -> int:
    return 0 if before is None or now is None else now - before


def _latest(now: int | None, before: int | None) -> int | None:
    """Return a counter's last known value: no answer does not reset a counter."""
    return before if now is None else now
