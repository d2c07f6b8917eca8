"""What a workload is known to reach, and whether a result is as expected."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from tarmac.errors import RequestError, unknown_name
from tarmac.runs import bare_name, name_words
from tarmac.workloads.naming import Named

if TYPE_CHECKING:
    from tarmac.runs import JudgedBy


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a result is what was expected, in a word and in a sentence."""

    met: bool
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expectation(metaclass=Named):
    """What a workload is known to reach with its own recipe and data.

    Attributes:
        at_least: The lowest value expected, of accuracy in [0, 1]; None where less is simply
            better.
        at_most: The highest; None where more is simply better. One of the two there must be.
        source: Where the bounds come from, in words, such as ``Keras documents 0.9925``.
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
                hint="Give it one: Expectation(at_least=0.9), or at_most= where less is better.",
            )

    def __str__(self) -> str:
        """Return the range in words: ``at least 0.99``."""
        if self.at_most is None:
            return f"at least {self.at_least:g}"
        if self.at_least is None:
            return f"at most {self.at_most:g}"
        return f"{self.at_least:g} to {self.at_most:g}"

    def metric_of(self, judged: JudgedBy) -> str:
        """Return the final metric that it is about: ``test_accuracy``.

        Args:
            judged: What the workload is judged by.

        Raises:
            RequestError: That is not scored.
        """
        name = judged.of("test") if self.metric is None else self.metric
        name = name if bare_name(name) != name else f"test_{name}"
        if bare_name(name) not in judged.scores:
            raise unknown_name(
                "metric of the expectation", bare_name(name), dict.fromkeys(judged.scores, "")
            )
        return name

    def judge(self, value: float, metric: str = "test_accuracy") -> Verdict:
        """Compare what was reached with the expectation.

        Args:
            value: What was reached; what is no number is never as expected.
            metric: Its name; see `metric_of`.
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
