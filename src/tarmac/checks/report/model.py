"""The report of a check, as values: verdicts, findings, requirements and evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tarmac.checks.evidence import Inventory, Probe
from tarmac.checks.ranked import Ranks
from tarmac.checks.rules.catalogue import Level
from tarmac.checks.rules.findings import Finding
from tarmac.checks.soaked import Soak
from tarmac.checks.under_load import UnderLoad

SCHEMA_VERSION = 3

Answer = Literal["ok", "cpu only", "warning", "failure", "absent", "unknown"]

# In ascending order of severity.
SEVERITY: Mapping[Level, int] = {"note": 0, "warning": 1, "failure": 2}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Verdict(_Part):
    """The verdict on a device or a framework.

    Attributes:
        name: Name of the device or framework: ``GPU 0``, ``CPU``, ``torch``.
        answer: Verdict in a word. ``cpu only`` is a framework that works and used no GPU;
            ``unknown`` is one whose probe could not be started.
        text: Explanation of the answer, in a line.
    """

    name: str
    answer: Answer
    text: str


class Requirement(_Part):
    """A required condition and its answer.

    Attributes:
        text: Condition to check, such as ``gpus>=1``.
        met: Whether the condition holds; None where the check could not tell.
        found: Actual value or state on this machine.
        better: Whether the value is more than 5 % better than in the baseline.
        source: Name of the file that has the condition; empty for ``--require``.
    """

    text: str
    met: bool | None
    found: str
    better: bool = False
    source: str = ""


class Unseen(_Part):
    """A part of the machine that gave no answer.

    Attributes:
        where: Name of the device or framework, or ``machine``.
        why: Reason for the missing answer, in a line.
    """

    where: str
    why: str


class Report(_Part):
    """All results of a check.

    Attributes:
        schema_version: Version of this report's JSON schema.
        checked_at: Time of the check in UTC, such as ``2026-11-21T14:03:00Z``.
        devices: Verdicts on all devices.
        frameworks: Verdicts on all frameworks that are installed or were named.
        findings: Findings with their fixes, failures first.
        requirements: Required conditions with their answers.
        fail_on: Lowest level of findings that fail the check; None where only the requirements
            decide.
        only: Codes of the only failures that were looked for; empty for all.
        skipped: Findings whose codes were excluded, so they do not count.
        unseen: Parts of the machine that gave no answer.
        inventory: Facts about the machine, gathered without any framework.
        probes: Results of all frameworks' probes.
        under_load: Readings of each GPU that computed while a probe measured.
        seconds: Seconds that the whole check took.
        soak: The driver's readings of a soak; None where there was none.
        ranks: Results of several ranks; None for a check by one process.
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
        """The frameworks that fail the check without a finding of their own, e.g. absent ones."""
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
        """The parts that gave no answer, where that keeps the check from being ok."""
        return () if self.fail_on is None else self.unseen

    @property
    def exit_code(self) -> Literal[0, 1, 3]:
        """0 where all holds, 1 where something failed, 3 where a part gave no answer.

        A failure takes precedence over no answer. No answer is never success.
        """
        met = [requirement.met for requirement in self.requirements]
        if False in met or self.failing or self.broken:
            return 1
        return 3 if None in met or self.unanswered else 0

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0: all requirements hold, and nothing that counts failed."""
        return self.exit_code == 0
