"""Expected results of workloads, and the comparison of a result with them."""

from __future__ import annotations

import dataclasses
import math

from tarmac.errors import RequestError, unknown_name
from tarmac.runs import JudgedBy, bare_name, name_words
from tarmac.workloads.naming import Named


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a result meets the expectation, as a bool and as a sentence."""

    met: bool
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expectation(metaclass=Named):
    """The result that a workload is known to reach with its own recipe and data.

    Attributes:
        at_least: Lower bound; accuracies are in [0, 1]. None: no lower bound. ``at_least`` or
            ``at_most`` must be set.
        at_most: Upper bound. None: no upper bound.
        source: Origin of the bounds, in words, such as ``Keras documents 0.9925``.
        metric: Final metric that the bounds apply to, such as ``val_loss``. A name without a split
            means the test set. None for the metric that judges the workload.
    """

    at_least: float | None = None
    at_most: float | None = None
    source: str = ""
    metric: str | None = None

    def __post_init__(self) -> None:
        if self.at_least is None and self.at_most is None:
            raise RequestError(
                "an expectation has no bound",
                hint="Give it one: Expectation(at_least=0.9), or at_most= if less is better.",
            )

    def __str__(self) -> str:
        """Return the range in words: ``at least 0.99``."""
        if self.at_most is None:
            return f"at least {self.at_least:g}"
        if self.at_least is None:
            return f"at most {self.at_most:g}"
        return f"{self.at_least:g} to {self.at_most:g}"

    def metric_of(self, judged: JudgedBy) -> str:
        """Return the final metric that the bounds apply to, such as ``test_accuracy``.

        Args:
            judged: The metrics of the workload, and the metric that judges it.

        Raises:
            RequestError: The workload does not score the metric.
        """
        name = judged.of("test") if self.metric is None else self.metric
        name = name if bare_name(name) != name else f"test_{name}"
        if bare_name(name) not in judged.scores:
            raise unknown_name(
                "metric of the expectation", bare_name(name), dict.fromkeys(judged.scores, "")
            )
        return name

    def judge(self, value: float, metric: str = "test_accuracy") -> Verdict:
        """Compare a result with the bounds.

        Args:
            value: Result of the training. NaN and infinity never meet the expectation.
            metric: Name of the metric, as from `metric_of`. Default ``test_accuracy``.
        """
        if not math.isfinite(value):
            word = "no number"
        elif self.at_least is not None and value < self.at_least:
            word = "below what was expected"
        elif self.at_most is not None and value > self.at_most:
            word = "above what was expected"
        else:
            word = "as expected"
        text = f"{name_words(metric)} {value:.4f}, expected {self}: {word}"
        return Verdict(met=word == "as expected", text=text)
