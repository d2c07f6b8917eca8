"""A training's scores as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_LARGE = 1e5


def scores_text(row: Mapping[str, float], names: Sequence[str]) -> list[str]:
    """Return an epoch's scores, those of the training first: ``loss 0.0312``, ``val_loss 0.0410``.

    Args:
        row: The epoch's line of ``metrics.jsonl``.
        names: Names of all scores, without ``val_``. A score that the epoch lacks is left out.
    """
    keys = [*names, *(f"val_{name}" for name in names)]
    return [f"{key} {score_text(row[key])}" for key in keys if key in row]


def score_text(value: float) -> str:
    """Return a score with four decimals; a large score with six digits."""
    return f"{value:.4f}" if abs(value) < _LARGE else f"{value:.6g}"
