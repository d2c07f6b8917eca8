"""The criteria of a check: the conditions that have to hold, and the findings that count."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tarmac.checks.evidence import Evidence, Inventory
from tarmac.checks.report.baseline import Baseline
from tarmac.checks.report.make import make_report
from tarmac.checks.report.model import SEVERITY, Report
from tarmac.checks.report.requirements import Condition, parse_requirements
from tarmac.checks.rules.catalogue import Level, find_failure
from tarmac.errors import RequestError, unknown_name


@dataclasses.dataclass(frozen=True)
class Gate:
    """The criteria of a check.

    Attributes:
        conditions: Conditions that have to hold.
        fail_on: Lowest level of findings that fail the check; None where only conditions do.
        only: Codes of the only failures to look for; empty for all.
        skip: Codes of failures that are reported and do not count.
        baseline: Earlier report to compare with; None without one.
    """

    conditions: tuple[Condition, ...]
    fail_on: Level | None
    only: tuple[str, ...]
    skip: tuple[str, ...]
    baseline: Baseline | None

    @property
    def frameworks(self) -> list[str]:
        """The names of the frameworks that the conditions need probed."""
        named = (condition.framework for condition in self.conditions)
        return [name for name in dict.fromkeys(named) if name is not None]

    def refuse_other(self, inventory: Inventory) -> None:
        """Refuse a machine of another model than the baseline's.

        Raises:
            RequestError: The machine is of another model.
        """
        if self.baseline is not None:
            self.baseline.refuse_other(inventory)

    def judge(self, evidence: Evidence, *, seconds: float) -> Report:
        """Return the report of evidence by these criteria; see `make_report`."""
        return make_report(
            evidence,
            requirements=self.conditions,
            fail_on=self.fail_on,
            only=self.only,
            skip=self.skip,
            seconds=seconds,
        )


def read_gate(
    *,
    require: Sequence[str],
    expect: str | Path | None,
    against: str | Path | None,
    fail_on: Level | None,
    only: Sequence[str],
    skip: Sequence[str],
    frameworks: Sequence[str],
    has_rates: bool,
) -> Gate:
    """Read the criteria of a check.

    Args:
        require: Conditions as the user typed them, such as ``gpus>=1``.
        expect: File of conditions, read by `read_expectation`.
        against: File with an earlier report to compare with.
        fail_on: Lowest level of findings that fail the check. Default: ``failure``, and none where
            only ``require`` sets conditions.
        only: Codes of the only failures to look for; empty for all.
        skip: Codes of failures that do not count.
        frameworks: Names of the frameworks whose rates are compared; empty for all.
        has_rates: Whether the check measures rates.

    Raises:
        RequestError: A criterion is unknown, or needs a rate that this check does not measure.
    """
    # Renamed codes are accepted by their old names.
    only, skip = ([find_failure(code).code for code in codes] for codes in (only, skip))
    if both := {*only} & {*skip}:
        raise RequestError(f"{', '.join(sorted(both))} cannot be both in --only and in --skip")
    if fail_on not in (None, *SEVERITY):
        raise unknown_name("level", str(fail_on), dict.fromkeys(SEVERITY, ""))
    conditions = parse_requirements(require)
    if expect is not None:
        # Its readers of documents take a tenth of a second, in which no probe runs yet.
        from tarmac.checks.report.expectation import read_expectation  # noqa: PLC0415

        conditions += read_expectation(Path(expect))
    baseline = None if against is None else Baseline(Path(against))
    if baseline is not None:
        conditions += baseline.conditions(frameworks)
    rates = [condition for condition in conditions if condition.needs_rates]
    if rates and not has_rates:
        source = f"{rates[0].source}: " if rates[0].source else ""
        raise RequestError(
            f"{source}{rates[0].text} is requested, but a quick check measures no rates",
            hint="Leave out --quick, or the rates",
        )
    decides_alone = bool(require) and expect is None and against is None
    return Gate(
        conditions=tuple(conditions),
        fail_on=fail_on or (None if decides_alone else "failure"),
        only=tuple(only),
        skip=tuple(skip),
        baseline=baseline,
    )
