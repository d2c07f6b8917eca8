"""Keys of other systems' search files, and the equivalent keys of a study file.

From the documentation of Weights & Biases' sweeps, Optuna, Ray Tune, Katib and NNI, as of 2026.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.documents import Problem

_OF_STUDIES = {
    **dict.fromkeys(("parameters", "search_space", "searchSpace"), "space: {hidden: [32, 64]}"),
    **dict.fromkeys(("metric", "goal", "direction", "mode"), "objective: val_accuracy"),
    **dict.fromkeys(("algorithm", "sampler", "tuner"), "method: tpe"),
    **dict.fromkeys(("num_samples", "n_trials", "maxTrialCount", "run_cap"), "trials: 20"),
    **dict.fromkeys(("early_terminate", "pruner", "scheduler", "assessor"), "prune: median"),
    "program": "workload: my_model.py:workload",
}
_OF_PARAMETERS = {
    **dict.fromkeys(("values", "list", "categories", "_value", "value"), "choices: [32, 64]"),
    **dict.fromkeys(("min", "lower"), "low: 0.001"),
    **dict.fromkeys(("max", "upper"), "high: 0.1"),
    **dict.fromkeys(("distribution", "scale", "log_scale"), "log: true"),
    **dict.fromkeys(("q", "step_size"), "step: 0.1"),
    **dict.fromkeys(("type", "_type", "parameterType"), "choices: [32, 64], or low and high"),
    **dict.fromkeys(("condition", "parent"), "when: {hidden: [128, 256]}"),
}
_PARAMETER = re.compile(r"(?:(?:space|datasets\.[^.]+)\.)?[^.]+\.([^.]+)")


def with_own_keys(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems of a study file; hint at Tarmac's key for another system's key."""
    for problem in problems:
        match = _PARAMETER.fullmatch(problem.path)
        own = _OF_PARAMETERS.get(match[1]) if match else _OF_STUDIES.get(problem.path)
        if own is None or problem.message != "unknown key":
            yield problem
        else:
            yield dataclasses.replace(problem, hint=f"  write here: {own}")
