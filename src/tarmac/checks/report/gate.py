"""What a check is asked to conclude: which conditions hold, and which findings count."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.checks.report.baseline import Baseline
from tarmac.checks.report.expectation import read_expectation
from tarmac.checks.report.make import make_report
from tarmac.checks.report.model import SEVERITY
from tarmac.checks.report.requirements import parse_requirements
from tarmac.checks.rules.catalogue import find_failure
from tarmac.errors import RequestError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.checks.evidence import Evidence, Inventory
    from tarmac.checks.report.model import Report
    from tarmac.checks.report.requirements import Condition
    from tarmac.checks.rules.catalogue import Level


@dataclasses.dataclass(frozen=True)
class Gate:
    """What is asked of a report.

    Attributes:
        conditions: What has to hold.
        fail_on: The lowest level of findings that fail it; None where conditions alone do.
        only: Codes; where there are any, no other failure is looked for.
        skip: Codes of failures that are said, and do not count.
        baseline: What it is compared with.
    """

    conditions: tuple[Condition, ...]
    fail_on: Level | None
    only: tuple[str, ...]
    skip: tuple[str, ...]
    baseline: Baseline | None

    @property
    def frameworks(self) -> list[str]:
        """Those that have to be probed."""
        named = (condition.framework for condition in self.conditions)
        return [name for name in dict.fromkeys(named) if name is not None]

    def refuse_other(self, inventory: Inventory) -> None:
        """Refuse a machine that the baseline says nothing of.

        Raises:
            RequestError: It is of another model.
        """
        if self.baseline is not None:
            self.baseline.refuse_other(inventory)

    def judge(self, evidence: Evidence, *, seconds: float) -> Report:
        """Conclude from evidence; see `make_report`."""
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
    """Read what is asked of a check.

    Args:
        require: Conditions as the user typed them, such as ``gpus>=1``.
        expect: A file of conditions.
        against: An earlier report's file.
        fail_on: As was asked; where it was not, findings of failures count unless ``require``
            alone is given, which then decides.
        only: Codes of the failures to look for; all where it is empty.
        skip: Codes of failures that do not count.
        frameworks: Those that were named, to whose rates the comparison keeps.
        has_rates: Whether rates are measured.

    Raises:
        RequestError: Something of it is not understood, or cannot be told by such a check.
    """
    # A code that was renamed is known by its old name too.
    only, skip = ([find_failure(code).code for code in codes] for codes in (only, skip))
    if both := {*only} & {*skip}:
        raise RequestError(f"{', '.join(sorted(both))} cannot be looked for alone and be skipped")
    if fail_on not in (None, *SEVERITY):
        raise unknown_name("level", str(fail_on), dict.fromkeys(SEVERITY, ""))
    conditions = parse_requirements(require)
    if expect is not None:
        conditions += read_expectation(Path(expect))
    baseline = None if against is None else Baseline(Path(against))
    if baseline is not None:
        conditions += baseline.conditions(frameworks)
    rates = [condition for condition in conditions if condition.needs_rates]
    if rates and not has_rates:
        source = f"{rates[0].source}: " if rates[0].source else ""
        raise RequestError(
            f"{source}{rates[0].text} is asked for, and a quick check measures no rates",
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
