"""What a check says, as values: verdicts, findings, requirements, and the evidence for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from tarmac.checks.evidence import Inventory, Probe  # noqa: TC001 - pydantic reads them
from tarmac.checks.ranked import Ranks  # noqa: TC001 - pydantic reads it
from tarmac.checks.rules.catalogue import Level  # noqa: TC001 - pydantic reads it
from tarmac.checks.rules.findings import Finding  # noqa: TC001 - pydantic reads it
from tarmac.checks.soaked import Soak  # noqa: TC001 - pydantic reads it
from tarmac.checks.under_load import UnderLoad  # noqa: TC001 - pydantic reads it

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION = 3

Answer = Literal["ok", "cpu only", "warning", "failure", "absent", "unknown"]

# From the least on.
SEVERITY: Mapping[Level, int] = {"note": 0, "warning": 1, "failure": 2}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Verdict(_Part):
    """What became of a device or a framework.

    Attributes:
        name: ``GPU 0``, ``CPU``, ``torch``.
        answer: In a word. ``cpu only`` is a framework that works and used no GPU; ``unknown`` is
            one whose probe could not be started.
        text: Explanation of the answer, in a line.
    """

    name: str
    answer: Answer
    text: str


class Requirement(_Part):
    """Something that was asked to hold.

    Attributes:
        text: Condition to check, such as ``gpus>=1``.
        met: Whether it holds; None where that could not be told.
        found: What is there instead, or as well.
        better: Whether it is more than 5 % better than in the baseline that it is of.
        source: The file that asks for it; empty for ``--require``.
    """

    text: str
    met: bool | None
    found: str
    better: bool = False
    source: str = ""


class Unseen(_Part):
    """Something that could not be looked at, which is no answer.

    Attributes:
        where: The device or framework, or ``machine``.
        why: Reason for the missing answer, in a line.
    """

    where: str
    why: str


class Report(_Part):
    """All of a check's results.

    Attributes:
        schema_version: Version of this report's JSON schema.
        checked_at: The time in UTC, as ``2026-11-21T14:03:00Z``.
        devices: A verdict for each.
        frameworks: A verdict for each that is installed or was asked for.
        findings: Failures first; what to do, in that order.
        requirements: What was asked to hold.
        fail_on: Findings of this level or a higher one fail the check; None where what is required
            decides alone.
        only: Codes; where there are any, no other failure was looked for.
        skipped: What was found, and was asked not to count.
        unseen: What could not be looked at.
        inventory: Facts about the machine, gathered without any framework.
        probes: What each framework said.
        under_load: Each GPU that computed while a probe measured.
        seconds: Seconds that the whole check took.
        soak: What the driver saw of a soak; None where there was none.
        ranks: What several ranks measured; None where one process has looked.
    """

    schema_version: int = SCHEMA_VERSION
    checked_at: str
    devices: tuple[Verdict, ...]
    frameworks: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    requirements: tuple[Requirement, ...] = ()
    fail_on: Level | None = "failure"
    only: tuple[str, ...] = ()
    skipped: tuple[Finding, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    inventory: Inventory
    probes: tuple[Probe, ...]
    under_load: tuple[UnderLoad, ...] = ()
    seconds: float
    soak: Soak | None = None
    ranks: Ranks | None = None

    @property
    def driver(self) -> str:
        """NVIDIA's driver in a line; empty where there is none."""
        driver = self.inventory.driver
        if driver.version is None:
            return ""
        return f"NVIDIA driver {driver.version}, for CUDA up to {driver.cuda or 'unknown'}"

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The findings that fail the check."""
        if self.fail_on is None:
            return ()
        least = SEVERITY[self.fail_on]
        return tuple(f for f in self.findings if SEVERITY[f.level] >= least)

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """The frameworks that fail the check without a finding at them: those that are absent."""
        if self.fail_on is None or self.only:
            return ()
        places = {place for finding in (*self.findings, *self.skipped) for place in finding.where}
        return tuple(
            verdict
            for verdict in self.frameworks
            if verdict.answer in ("failure", "absent")
            and not any(p == verdict.name or p.startswith(f"{verdict.name} on ") for p in places)
        )

    @property
    def unanswered(self) -> tuple[Unseen, ...]:
        """What could not be looked at, of what decides."""
        return () if self.fail_on is None else self.unseen

    @property
    def exit_code(self) -> Literal[0, 1, 3]:
        """0 where all holds, 1 where something failed, 3 where that could not be told.

        What failed comes first. Absence of an answer is never success.
        """
        met = [requirement.met for requirement in self.requirements]
        if False in met or self.failing or self.broken:
            return 1
        return 3 if None in met or self.unanswered else 0

    @property
    def ok(self) -> bool:
        """Whether all holds: what is required, and that nothing failed where that counts."""
        return self.exit_code == 0
