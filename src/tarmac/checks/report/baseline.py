"""An earlier report as conditions: whether a machine is still as good as it was."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tarmac.checks.evidence import Evidence, Inventory
from tarmac.checks.report.model import Report, Verdict
from tarmac.checks.report.rates import Rate, rates_of
from tarmac.checks.report.requirements import Condition
from tarmac.checks.report.stored import differing_model, hardware_facts, read_report
from tarmac.checks.report.unseen import is_silent
from tarmac.errors import RequestError

# Loss of rate that Microsoft's superbenchmark counts as a defect:
# https://github.com/microsoft/superbenchmark.
TOLERANCE = 0.05


class Baseline:
    """An earlier report of the same machine, or of another of its model, in a good state.

    Args:
        path: File with the earlier report.

    Raises:
        RequestError: The file cannot be read, or has no report of this schema.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._report: Report = read_report(path)

    def refuse_other(self, inventory: Inventory) -> None:
        """Refuse a machine of another model.

        Raises:
            RequestError: The machine is of another model.
        """
        why = differing_model(self._report.inventory, inventory)
        if why:
            raise RequestError(
                f"{self._path}: from another model of machine: {why}",
                hint="Save one of this model: tarmac check --save FILE",
            )

    def conditions(self, frameworks: Collection[str] = ()) -> Iterator[Condition]:
        """Yield the conditions that facts are unchanged and that no rate is more than 5 % worse.

        Args:
            frameworks: Names of the frameworks whose rates are compared. Default: all that were
                measured.
        """
        for name, value in hardware_facts(self._report.inventory).items():
            yield self._same(name, value)
        probes = self._report.probes
        if frameworks:
            probes = tuple(probe for probe in probes if probe.framework in frameworks)
        for rate in rates_of(probes):
            yield self._no_worse(rate)

    def _same(self, name: str, value: str) -> Condition:
        def answer(evidence: Evidence, _: Sequence[Verdict]) -> tuple[bool | None, str]:
            current = hardware_facts(evidence.inventory).get(name, "none")
            # Without an answer of the driver, a change of these facts is unknown.
            is_unknown = current != value and name != "memory" and is_silent(evidence)
            return (None, "unknown") if is_unknown else (current == value, current)

        return Condition(f"{name}: {value}", answer, source=self._path.name)

    def _no_worse(self, rate: Rate) -> Condition:
        def now(evidence: Evidence) -> Rate | None:
            return next((r for r in rates_of(evidence.probes) if r.name == rate.name), None)

        def answer(evidence: Evidence, _: Sequence[Verdict]) -> tuple[bool | None, str]:
            current = now(evidence)
            if current is None:
                return False, "not measured"
            change = current.value / rate.value - 1
            word = "better" if change >= 0 else "worse"
            detail = f"{current.value:.4g} {current.unit}, {abs(change):.1%} {word}"
            return change >= -TOLERANCE, detail

        def better(evidence: Evidence) -> bool:
            current = now(evidence)
            return current is not None and current.value > (1 + TOLERANCE) * rate.value

        text = f"{rate.name}: {rate.value:.4g} {rate.unit}"
        return Condition(text, answer, needs_rates=True, source=self._path.name, better=better)
