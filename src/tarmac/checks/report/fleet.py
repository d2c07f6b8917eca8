"""Compares many machines' reports, and finds odd machines and the facts in which they differ."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from tarmac.checks.report.baseline import TOLERANCE
from tarmac.checks.report.model import Report
from tarmac.checks.report.rates import Rate, rates_of
from tarmac.checks.report.stored import hardware_facts, odd_ones, software_facts

# From this number of machines on, their spread shows what is usual. The limit is three times the
# median absolute deviation; 1.4826 scales that to a normal distribution's standard deviation.
_MIN_SPREAD = 4
_MAX_SPREADS = 3 * 1.4826


@dataclasses.dataclass(frozen=True)
class Difference:
    """A fact or a rate in which machines differ.

    Attributes:
        item: Name of the fact or rate that differs.
        usual: Most common value, or a rate's median with its range; empty in a tie.
        odd: Other values, by the name of the machine.
    """

    item: str
    usual: str
    odd: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Fleet:
    """The comparison of many machines' reports.

    Attributes:
        machines: Names of all machines that are compared.
        differences: Facts and rates in which some machines are odd.
        num_alike: Number of facts and rates in which no machine is odd.
    """

    machines: tuple[str, ...]
    differences: tuple[Difference, ...]
    num_alike: int

    @property
    def odd(self) -> tuple[str, ...]:
        """The machines that are odd in anything, in their order."""
        odd = {name for difference in self.differences for name in difference.odd}
        return tuple(name for name in self.machines if name in odd)

    def facts(self) -> dict[str, Any]:
        """Return the comparison as a dictionary for JSON."""
        return {**dataclasses.asdict(self), "odd": self.odd}


def compare_reports(reports: Mapping[str, Report]) -> Fleet:
    """Compare the reports of several machines.

    A fact is odd where it differs from the most common value. A rate is odd where it is more than
    5 % below the median. With four machines or more, it must also be further below the median than
    three times the usual distance (1.4826 times the median absolute deviation).

    Args:
        reports: Reports by the machine's name, at least two.
    """
    differences = [*_facts(reports), *_rates(reports)]
    return Fleet(
        machines=tuple(reports),
        differences=tuple(difference for difference in differences if difference.odd),
        num_alike=sum(not difference.odd for difference in differences),
    )


def _facts(reports: Mapping[str, Report]) -> Iterator[Difference]:
    facts = {
        name: {**hardware_facts(report.inventory), **software_facts(report)}
        for name, report in reports.items()
    }
    for item in dict.fromkeys(item for own in facts.values() for item in own):
        values = {name: own.get(item, "none") for name, own in facts.items()}
        usual, odd = odd_ones(values)
        yield Difference(item, usual or "", odd)


def _rates(reports: Mapping[str, Report]) -> Iterator[Difference]:
    rates: dict[str, dict[str, Rate]] = {}
    for name, report in reports.items():
        for rate in rates_of(report.probes):
            rates.setdefault(rate.name, {})[name] = rate
    for item, measured in rates.items():
        values = [rate.value for rate in measured.values()]
        median, unit = statistics.median(values), next(iter(measured.values())).unit
        least = median - max(TOLERANCE * median, _usual_distance(values, median))
        odd = {
            name: f"{rate.value:.4g} {unit}, {1 - rate.value / median:.1%} less"
            for name, rate in measured.items()
            if rate.value < least
        }
        # Where most machines have a rate, a machine without it is odd.
        if 2 * len(measured) > len(reports):
            odd |= {name: "not measured" for name in reports if name not in measured}
        usual = f"{median:.4g} {unit} ({min(values):.4g} to {max(values):.4g})"
        yield Difference(item, usual, odd)


def _usual_distance(values: list[float], median: float) -> float:
    if len(values) < _MIN_SPREAD:
        return 0.0
    return _MAX_SPREADS * statistics.median(abs(value - median) for value in values)
