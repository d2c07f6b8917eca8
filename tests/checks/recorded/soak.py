"""Recorded failures of ``failures/soak.toml``, by code."""

from __future__ import annotations

from typing import Any

from recorded.evidence import on_gpu
from tarmac.checks.evidence import Evidence

_HEALTHY = {
    "step": "done",
    "version": "2.13.0",
    "rounds": 1180,
    "comparisons": 40_120,
    "bytes": 11_878_000_000_000,
    "memory_bytes": 134_217_728_000,
    "num_mismatches": 0,
    "mismatches": [],
    "fastest_s": 0.0561,
    "slowest_s": 0.0702,
}


def soaked(lost: str = "", **state: Any) -> Evidence:
    facts = {"lost": lost} if lost else {}
    return on_gpu("soak", soak=_HEALTHY | state, **facts)


_FLIPPED = {
    "operation": "memory (addresses, inverse)",
    "elements": 1,
    "of": 16_777_216,
    "first": 5_242_880,
    "expected": "0xffff8087d7ffffff",
    "found": "0xffff8087d7fffdff",
}

RECORDED: dict[str, list[Evidence]] = {
    "soak-mismatch": [
        soaked(num_mismatches=1, mismatches=[_FLIPPED]),
        # Found right when it was looked at again, on the host.
        soaked(
            num_mismatches=3,
            mismatches=[_FLIPPED | {"operation": "copy to cuda:1", "elements": 0, "first": 0}],
        ),
    ],
    "soak-lost": [
        soaked(lost="ended by SIGKILL at: memory", step="memory"),
        soaked(lost="no sign for 120 s at: products", step="products"),
    ],
}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "soak-mismatch": [
        # Uneven rounds are what a card at its power limit has.
        soaked(slowest_s=0.2),
        on_gpu("soak", soak={"step": "import"}),
    ],
    "soak-lost": [soaked(), soaked(num_mismatches=1, mismatches=[_FLIPPED])],
}
