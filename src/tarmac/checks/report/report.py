"""What a check says: a verdict for each device and framework, what to do, and what was required."""

from __future__ import annotations

import operator
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict

from tarmac.checks.evidence import Inventory, Probe  # noqa: TC001 - pydantic reads them
from tarmac.checks.frameworks import FRAMEWORKS, framework_named
from tarmac.checks.rules.catalogue import read_catalogue
from tarmac.checks.rules.findings import Finding, find
from tarmac.errors import RequestError
from tarmac.machine import find_chip

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tarmac.checks.evidence import Evidence, PciCard
    from tarmac.machine import Chip, Gpu

__all__ = [
    "Report",
    "Requirement",
    "Verdict",
    "make_report",
    "parse_requirements",
    "required_frameworks",
]

SCHEMA_VERSION = 1

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
        checked_at: When, in UTC: ``2026-11-21T14:03:00Z``.
        devices: A verdict for each.
        frameworks: A verdict for each that is installed or was asked for.
        findings: Failures first; what to do, in that order.
        requirements: What was asked to hold.
        inventory: The machine.
        probes: What each framework said.
        seconds: The whole check took.
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


def make_report(
    evidence: Evidence,
    *,
    requirements: Sequence[Callable[[Evidence, Sequence[Verdict]], Requirement]] = (),
    seconds: float,
) -> Report:
    """Conclude from what was seen.

    Args:
        evidence: All of it.
        requirements: From `parse_requirements`.
        seconds: The whole check took.
    """
    findings = find(evidence)
    frameworks = tuple(_of_framework(probe, evidence, findings) for probe in evidence.probes)
    return Report(
        checked_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        devices=_of_devices(evidence, findings),
        frameworks=frameworks,
        findings=findings,
        requirements=tuple(requirement(evidence, frameworks) for requirement in requirements),
        inventory=evidence.inventory,
        probes=evidence.probes,
        seconds=seconds,
    )


def parse_requirements(
    texts: Sequence[str],
) -> list[Callable[[Evidence, Sequence[Verdict]], Requirement]]:
    """Read ``gpus>=1``, ``pytorch``, ``memory>=16``, ``driver>=570`` and their like.

    Raises:
        RequestError: A text is none of these.
    """
    return [_parse(text) for text in texts]


def required_frameworks(texts: Sequence[str]) -> list[str]:
    """Return the frameworks that requirements name."""
    found = map(framework_named, texts)
    return [framework.name for framework in found if framework is not None]


def _parse(text: str) -> Callable[[Evidence, Sequence[Verdict]], Requirement]:
    framework = framework_named(text)
    if framework is not None:
        return lambda _, frameworks: _works(text, framework.name, frameworks)
    match = re.fullmatch(r"\s*([a-z_]+)\s*(?:(>=|==|>|<|<=)\s*(\S+))?\s*", text)
    if match is not None and match[2] is None and match[1] == "gpu":
        return lambda evidence, _: _compare(text, _QUANTITIES["gpus"](evidence), ">=", 1.0)
    if match is not None and match[2] is not None:
        name, comparison, amount = match.groups()
        if name in _VERSIONS:
            version = _version_asked(text, amount)
            return lambda evidence, _: _compare(
                text, _VERSIONS[name](evidence), comparison, version
            )
        if name in _QUANTITIES:
            number = _number_asked(text, amount)
            return lambda evidence, _: _compare(
                text, _QUANTITIES[name](evidence), comparison, number
            )
    raise RequestError(
        f"--require {text!r} is not understood",
        hint=f"A framework ({', '.join(FRAMEWORKS)}), or one of "
        f"{', '.join((*_QUANTITIES, *_VERSIONS))} with a number: gpus>=1, gpu_memory>=16 (GiB, of "
        "the smallest), driver>=570, cuda>=12.8",
    )


def _version_asked(text: str, amount: str) -> Version:
    try:
        return Version(amount)
    except InvalidVersion as error:
        raise RequestError(
            f"--require {text!r}: {amount!r} is no version", hint="Such as 570, 570.86.15 or 12.8"
        ) from error


def _number_asked(text: str, amount: str) -> float:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", amount, re.ASCII):
        raise RequestError(f"--require {text!r}: {amount!r} is no number", hint="Such as 1 or 0.5")
    return float(amount)


def _version(text: str | None) -> Version | None:
    # A build's name may follow: 570.86.15-grid.
    match = re.match(r"\d+(\.\d+)*", text or "")
    return Version(match[0]) if match else None


def _smallest_gib(evidence: Evidence) -> float | None:
    sizes = [gpu.memory_bytes for gpu in evidence.inventory.gpus if gpu.memory_bytes]
    return min(sizes) / 2**30 if sizes else None


def _memory(inventory: Inventory) -> int:
    limit = inventory.limits.memory_bytes
    return min(inventory.host.memory_bytes, limit or inventory.host.memory_bytes)


_QUANTITIES: dict[str, Callable[[Evidence], float | None]] = {
    "gpus": lambda evidence: sum(gpu.error is None for gpu in evidence.inventory.gpus),
    "gpu_memory": _smallest_gib,
    "cpus": lambda evidence: evidence.inventory.limits.cpus,
    "memory": lambda evidence: _memory(evidence.inventory) / 2**30,
    "shm": lambda evidence: (evidence.inventory.limits.shm_bytes or 0) / 2**30,
}

_VERSIONS: dict[str, Callable[[Evidence], Version | None]] = {
    "driver": lambda evidence: _version(evidence.inventory.driver.version),
    "cuda": lambda evidence: _version(evidence.inventory.driver.cuda),
}

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "<=": operator.le,
    "<": operator.lt,
}


def _compare(
    text: str, found: float | Version | None, comparison: str, wanted: float | Version
) -> Requirement:
    met = found is not None and _COMPARISONS[comparison](found, wanted)
    shown = f"{found:g}" if isinstance(found, (int, float)) else str(found or "unknown")
    return Requirement(text=text, met=met, found=shown)


def _works(text: str, name: str, frameworks: Sequence[Verdict]) -> Requirement:
    verdicts = [verdict for verdict in frameworks if verdict.name.split()[0] == name]
    if not verdicts:
        return Requirement(text=text, met=False, found="not checked")
    # Wherever it was looked for.
    bad = [v for v in verdicts if v.answer not in ("ok", "cpu only", "warning")]
    return Requirement(text=text, met=not bad, found=(bad or verdicts)[0].text)


def _of_devices(evidence: Evidence, findings: Sequence[Finding]) -> tuple[Verdict, ...]:
    inventory = evidence.inventory
    verdicts = [_of_gpu(gpu, findings) for gpu in inventory.gpus]
    shown = {gpu.address for gpu in inventory.gpus}
    verdicts += [_of_card(card) for card in inventory.cards if card.address not in shown]
    host = inventory.host
    text = f"{host.cpu}, {host.cores} cores, {_memory(inventory) / 2**30:.0f} GiB"
    if inventory.limits.cpus is not None and inventory.limits.cpus < host.cores:
        text += f"; {inventory.limits.cpus:g} of its cores may be used"
    return (*verdicts, Verdict(name="CPU", answer="ok", text=text))


def _of_card(card: PciCard) -> Verdict:
    """Return the verdict of a card that NVML does not show."""
    name, driver = f"card {card.address}", card.driver or "none"
    memory = f", {card.memory_bytes / 2**30:.0f} GiB" if card.memory_bytes else ""
    text = f"{card.vendor} {card.device}{memory}, driver {driver}"
    if card.vendor == "nvidia":
        return Verdict(name=name, answer="failure", text=f"{text}: not usable")
    return Verdict(name=name, answer="ok", text=text)


def _of_gpu(gpu: Gpu, findings: Sequence[Finding]) -> Verdict:
    answer, said = _worst(gpu.label, findings)
    if gpu.error is not None:
        return Verdict(name=gpu.label, answer="failure", text=gpu.error)
    facts = [gpu.name or "unknown"]
    if gpu.memory_bytes is not None:
        facts.append(f"{gpu.memory_bytes / 2**30:.0f} GiB")
    if gpu.mig_devices:
        facts.append(f"{len(gpu.mig_devices)} MIG partitions")
    if gpu.temperature_c is not None:
        facts.append(f"{gpu.temperature_c} °C")
    return Verdict(name=gpu.label, answer=answer, text=", ".join(facts) + said)


def _of_framework(probe: Probe, evidence: Evidence, findings: Sequence[Finding]) -> Verdict:
    name = probe.label
    if probe.outcome == "not installed":
        return Verdict(name=name, answer="absent", text=f"not installed in {probe.where}")
    answer, said = _worst(probe.label, findings)
    version = probe.result.get("version")
    facts = [str(version)] if version else []
    if probe.outcome != "done":
        text = ", ".join((*facts, f"{probe.outcome}: {probe.detail}".rstrip(": ")))
        return Verdict(name=name, answer="failure", text=text)
    devices = probe.result.get("devices", ())
    gpus = [device for device in devices if device["kind"] == "gpu"]
    facts += [_rates(device) for device in (gpus or devices)]
    if probe.seen_on_gpus:
        facts.append(f"the driver saw it on GPU {', '.join(map(str, probe.seen_on_gpus))}")
    if not gpus and answer == "ok":
        reason = _why_no_gpu(probe, evidence.inventory, findings)
        return Verdict(
            name=name,
            answer="cpu only",
            text=f"works, on the CPU; no GPU was used, because {reason}" + _behind(facts),
        )
    return Verdict(name=name, answer=answer, text=", ".join(filter(None, facts)) + said)


def _why_no_gpu(probe: Probe, inventory: Inventory, findings: Sequence[Finding]) -> str:
    if "cpu_because" in probe.result and inventory.gpus:
        return str(probe.result["cpu_because"])
    if set(probe.result.get("wanted", ())) == {"cpu"}:
        return "only the CPU was asked for"
    # What hides that a GPU is not used is why it is not used.
    for finding in findings:
        failure = read_catalogue()[finding.code]
        if "silent-cpu" in failure.hides and (not failure.own or probe.label in finding.where):
            return finding.title
    return "none is here"


def _behind(facts: Sequence[str]) -> str:
    shown = ", ".join(filter(None, facts))
    return f" ({shown})" if shown else ""


def _rates(device: dict[str, Any]) -> str:
    rates = device.get("flops") or {}
    chip = find_chip(device.get("chip"))
    shown = [f"{kind} {_flops(rate)}{_share(chip, kind, rate)}" for kind, rate in rates.items()]
    if "bus_bytes_per_s" in device:
        shown.append(f"bus {device['bus_bytes_per_s'] / 1e9:.2g} GB/s")
    return f"{device['name']}: {', '.join(shown)}" if shown else str(device["name"])


def _share(chip: Chip | None, kind: str, rate: float) -> str:
    nominal = getattr(chip, kind, None)
    return f" ({rate / nominal / 1e12:.0%} of its datasheet's)" if nominal else ""


def _flops(rate: float) -> str:
    return f"{rate / 1e12:.3g} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GFLOP/s"


def _worst(where: str, findings: Sequence[Finding]) -> tuple[Answer, str]:
    """Return the worst that was found of a device or framework, and its titles."""
    own = [
        finding
        for finding in findings
        if any(place == where or place.startswith(f"{where} on ") for place in finding.where)
    ]
    titles = [finding.title for finding in own if finding.level != "note"]
    said = f"; {', '.join(titles)}" if titles else ""
    levels = {finding.level for finding in own}
    if "failure" in levels:
        return "failure", said
    return ("warning", said) if "warning" in levels else ("ok", said)
