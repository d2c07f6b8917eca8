"""Rules on AMD's GPUs and on the frameworks that compute on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence, Probe
    from tarmac.checks.rules.rule import Hits, Rule

_OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"

# Targets of AMD's data-centre cards. A desktop's card drives a display.
_DATA_CENTRE = re.compile(r"gfx9(0[68a]|4\d|5\d)")


def _rocm_probes(evidence: Evidence) -> Iterator[Probe]:
    for probe in evidence.probes:
        if (probe.result.get("build") or {}).get("hip"):
            yield probe


def _overridden(evidence: Evidence) -> str | None:
    """Return the target that the variable sets for all cards: ``gfx1030`` for 10.3.0."""
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", evidence.inventory.environment.get(_OVERRIDE, ""))
    return None if match is None else f"gfx{match[1]}{int(match[2]):x}{int(match[3]):x}"


def _permission(evidence: Evidence) -> Hits:
    amd = evidence.inventory.amd
    if amd.gpus and amd.kfd == "denied":
        group = f"; group {amd.kfd_group} has it" if amd.kfd_group else ""
        yield "machine", f"this user has no access to /dev/kfd{group}"


def _no_device(evidence: Evidence) -> Hits:
    amd = evidence.inventory.amd
    has_card = bool(amd.gpus) or any(card.vendor == "amd" for card in evidence.inventory.cards)
    for probe in _rocm_probes(evidence):
        if has_card and amd.kfd == "absent":
            yield probe.label, "an AMD card is installed, /dev/kfd does not exist"


def _arch(evidence: Evidence) -> Hits:
    for probe in _rocm_probes(evidence):
        # Features may follow a target's name: gfx90a:sramecc+:xnack-.
        built = [name.partition(":")[0] for name in probe.result["build"].get("architectures", ())]
        for gpu in evidence.inventory.amd.gpus:
            name = _overridden(evidence) or gpu.gfx
            if built and name is not None and name not in built:
                yield probe.label, f"card {gpu.address} is {name}, the build has {' '.join(built)}"


def _override(evidence: Evidence) -> Hits:
    pretended = _overridden(evidence)
    for gpu in evidence.inventory.amd.gpus:
        if pretended is not None and pretended != gpu.gfx:
            yield f"card {gpu.address}", f"the chip is {gpu.gfx}, {_OVERRIDE} sets {pretended}"


def _ecc(evidence: Evidence) -> Hits:
    for gpu in evidence.inventory.amd.gpus:
        if gpu.uncorrected_errors:
            yield f"card {gpu.address}", f"{gpu.uncorrected_errors} since the driver was loaded"


def _numa_balancing(evidence: Evidence) -> Hits:
    amd = evidence.inventory.amd
    if amd.numa_balancing and any(_DATA_CENTRE.match(gpu.gfx or "") for gpu in amd.gpus):
        yield "machine", "/proc/sys/kernel/numa_balancing is not 0"


RULES: Mapping[str, Rule] = {
    "amd-permission": _permission,
    "amd-no-device": _no_device,
    "amd-arch": _arch,
    "amd-ecc": _ecc,
    "amd-override": _override,
    "amd-numa-balancing": _numa_balancing,
}
