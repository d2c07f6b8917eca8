"""Rules on a soak's comparisons, and on devices that were lost in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tarmac.checks.rules.rule import Hits, Rule, measured_devices, place_of

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence


def _soak_mismatch(evidence: Evidence) -> Hits:
    for probe, device in measured_devices(evidence):
        state = device.get("soak") or {}
        if state.get("num_mismatches"):
            words = "; ".join(dict.fromkeys(map(_in_words, state["mismatches"][:3])))
            more = f"; {state['num_mismatches']:,} of {state['comparisons']:,} comparisons in all"
            yield place_of(probe, device), words + more


def _in_words(mismatch: Mapping[str, Any]) -> str:
    if not mismatch["elements"]:
        return f"{mismatch['operation']}: elements that were correct when read again"
    return (
        f"{mismatch['operation']}: {mismatch['elements']:,} of {mismatch['of']:,} elements, first "
        f"{mismatch['first']}, {mismatch['expected']} expected and {mismatch['found']} found"
    )


def _soak_lost(evidence: Evidence) -> Hits:
    for probe, device in measured_devices(evidence):
        if device.get("lost"):
            yield place_of(probe, device), device["lost"]


RULES: Mapping[str, Rule] = {"soak-mismatch": _soak_mismatch, "soak-lost": _soak_lost}
