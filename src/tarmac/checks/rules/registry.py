"""The rules by their codes, and what several of them ask of the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence, Gpu

__all__ = ["RULES", "Hits", "Rule", "gpu_name", "gpu_rule", "is_confined", "nvidia_cards", "rule"]

# Where a failure is, and what shows it.
Hits: TypeAlias = Iterator[tuple[str, str]]
Rule: TypeAlias = Callable[["Evidence"], Hits]

RULES: dict[str, Rule] = {}


def gpu_name(gpu: Gpu) -> str:
    """Return how a GPU is called in findings."""
    return f"GPU {gpu.index}"


def rule(code: str) -> Callable[[Rule], Rule]:
    """Register a rule under its code."""

    def register(function: Rule) -> Rule:
        RULES[code] = function
        return function

    return register


def gpu_rule(code: str) -> Callable[[Callable[[Gpu], str | None]], Callable[[Gpu], str | None]]:
    """Register a rule that looks at one GPU and returns what shows it."""

    def register(function: Callable[[Gpu], str | None]) -> Callable[[Gpu], str | None]:
        def each(evidence: Evidence) -> Hits:
            for gpu in evidence.inventory.gpus:
                seen = function(gpu) if gpu.error is None else None
                if seen is not None:
                    yield gpu_name(gpu), seen

        RULES[code] = each
        return function

    return register


def nvidia_cards(evidence: Evidence) -> list[str]:
    """Return the addresses of NVIDIA's cards on the bus."""
    return [card.address for card in evidence.inventory.cards if card.vendor == "nvidia"]


def is_confined(evidence: Evidence) -> bool:
    """Whether this is a container."""
    return evidence.inventory.container.kind not in (None, "wsl")
