"""Counts as texts show them."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: float | None, noun: str) -> str:
    """Return a count with its noun, which takes an ``s`` but for one.

    Args:
        count: How many; None for infinitely many.
        noun: What is counted, one of it.

    Example:
        >>> counted(1, "sample"), counted(1_200, "sample"), counted(None, "network")
        ('1 sample', '1,200 samples', 'infinitely many networks')
    """
    many = "infinitely many" if count is None else f"{count:,.0f}"
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{many} {noun if count == 1 else plural}"
