"""What a failure's commands are on a machine: what stands in ``{...}`` in the catalogue.

Pure functions of what was seen, so that a command for any machine can be had on any other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tarmac.machine import wheel_index

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.checks.evidence import Evidence

__all__ = ["commands_for", "general_commands"]


def commands_for(
    lines: Sequence[str], places: Sequence[str], evidence: Evidence
) -> tuple[str, ...]:
    """Return commands for the machine that was seen.

    Args:
        lines: As the catalogue has them.
        places: Where the failure is: devices, frameworks, or ``machine``.
        evidence: All that was seen.
    """
    values = {"package": places[0].split()[0], **_packages(evidence)}
    return tuple(_filled(line, values) for line in lines)


def general_commands(lines: Sequence[str]) -> tuple[str, ...]:
    """Return commands for a machine of today, where nothing is known of it."""
    today = {"cuda_index": "cu130", "arch_index": "cu130", "jax_extra": "cuda13"}
    return tuple(
        re.sub(r"\{(\w+)\}", lambda match: today.get(match[1], match[1].upper()), line)
        for line in lines
    )


def _filled(line: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), line)


def _packages(evidence: Evidence) -> dict[str, str]:
    """Name the indices and extras that suit the driver and the chips."""
    capabilities = (gpu.capability for gpu in evidence.inventory.gpus if gpu.capability)
    index = wheel_index(evidence.inventory.driver.cuda, min(capabilities, default=None))
    return {
        "cuda_index": index,
        "arch_index": index,
        "jax_extra": "cuda13" if index == "cu130" else "cuda12",
    }
