"""Let another metric judge a training than the objective's default."""

from __future__ import annotations

import copy

from tarmac.errors import RequestError, unknown_name
from tarmac.runs import JudgedBy, bare_name
from tarmac.workloads.objectives import Objective


def monitored(objective: Objective, text: str) -> Objective:
    """Return a copy of the objective that is judged by another of its metrics.

    Args:
        objective: Objective to copy, which is not changed.
        text: Name of a metric, with or without ``val_``. ``NAME:max`` or ``NAME:min`` if the better
            direction is unknown.

    Raises:
        RequestError: The objective does not score the metric, or the better direction is unknown.
    """
    name, colon, end = text.partition(":")
    bare = bare_name(name)
    judged = JudgedBy(objective.judged_by, objective.direction, tuple(objective.metrics))
    if bare not in judged.scores or name not in (bare, f"val_{bare}"):
        raise unknown_name("metric to monitor", text, dict.fromkeys(judged.scores, ""))
    known = judged.direction_of(bare)
    if colon and end not in ((known,) if known else ("max", "min")):
        expected = f"{name}:{known}" if known else f"{name}:max or {name}:min"
        raise RequestError(f"monitor is {text!r}, expected {expected}")
    if not known and not colon:
        raise RequestError(
            f"monitor is {text!r}, and it is not known whether higher or lower is better",
            hint=f"Choose one: --monitor {name}:max, or {name}:min",
        )
    changed = copy.copy(objective)
    object.__setattr__(changed, "judged_by", bare)
    object.__setattr__(changed, "direction", known or end)
    return changed
