"""Rules on what the kernel's log says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.checks.evidence import Evidence
    from tarmac.checks.rules.rule import Hits, Rule

# Xids of applications' own faults, which say nothing of the card; NVIDIA's list of Xid errors.
_APPLICATION_XIDS = frozenset({13, 31, 43, 45})


def _xid(evidence: Evidence) -> Hits:
    lines = [line for line in evidence.inventory.kernel_log if "Xid" in line]
    numbers = {int(match[1]) for line in lines if (match := re.search(r"Xid \(.*?\): (\d+)", line))}
    serious = sorted(numbers - _APPLICATION_XIDS)
    if serious:
        yield "machine", f"Xid {', '.join(map(str, serious))}"


RULES: Mapping[str, Rule] = {
    "xid": _xid,
}
