"""What a check says, as values: verdicts, findings, requirements, and the evidence for them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from tarmac.checks.evidence import Inventory, Probe  # noqa: TC001 - pydantic reads them
from tarmac.checks.ranked import Ranks  # noqa: TC001 - pydantic reads it
from tarmac.checks.rules.findings import Finding  # noqa: TC001 - pydantic reads it
from tarmac.checks.soaked import Soak  # noqa: TC001 - pydantic reads it

__all__ = ["Answer", "Report", "Requirement", "Verdict"]

SCHEMA_VERSION = 2

Answer = Literal["ok", "cpu only", "warning", "failure", "absent"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Verdict(_Part):
    """What became of a device or a framework.

    Attributes:
        name: ``GPU 0``, ``CPU``, ``torch``.
        answer: In a word. ``cpu only`` is a framework that works and used no GPU.
        text: In a line.
    """

    name: str
    answer: Answer
    text: str


class Requirement(_Part):
    """Something that was asked to hold."""

    text: str
    met: bool
    found: str


class Report(_Part):
    """All of a check's results.

    Attributes:
        schema_version: Of this report's JSON form.
        checked_at: The time in UTC, as ``2026-11-21T14:03:00Z``.
        devices: A verdict for each.
        frameworks: A verdict for each that is installed or was asked for.
        findings: Failures first; what to do, in that order.
        requirements: What was asked to hold.
        inventory: The machine.
        probes: What each framework said.
        seconds: The whole check took.
        soak: What the driver saw of a soak; None where there was none.
        ranks: What several ranks measured; None where one process has looked.
    """

    schema_version: int = SCHEMA_VERSION
    checked_at: str
    devices: tuple[Verdict, ...]
    frameworks: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    requirements: tuple[Requirement, ...] = ()
    inventory: Inventory
    probes: tuple[Probe, ...]
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
    def ok(self) -> bool:
        """Whether all that is required holds; without requirements, whether nothing failed."""
        if self.requirements:
            return all(requirement.met for requirement in self.requirements)
        has_failed = any(finding.level == "failure" for finding in self.findings)
        return not has_failed and all(
            v.answer not in ("failure", "absent") for v in self.frameworks
        )
