"""What a rule is: a pure function from evidence to where a failure is, and what shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence
    from tarmac.machine import Gpu

__all__ = ["Hits", "Rule", "for_each_gpu"]

# Where a failure is, and what shows it.
Hits: TypeAlias = Iterator[tuple[str, str]]
Rule: TypeAlias = Callable[["Evidence"], Hits]


def for_each_gpu(look: Callable[[Gpu], str | None]) -> Rule:
    """Return the rule that looks at each GPU that answers.

    Args:
        look: Returns what shows the failure on a GPU; None where it has none.
    """

    def rule(evidence: Evidence) -> Hits:
        for gpu in evidence.inventory.gpus:
            shown = look(gpu) if gpu.error is None else None
            if shown is not None:
                yield gpu.label, shown

    return rule
