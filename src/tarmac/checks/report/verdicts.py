"""The verdicts on all devices and frameworks."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.checks.evidence import Evidence, Inventory, PciCard, Probe
from tarmac.checks.frameworks import PROVISIONED
from tarmac.checks.report.figures import device_in_words
from tarmac.checks.report.model import Answer, Verdict
from tarmac.checks.rules.catalogue import read_catalogue
from tarmac.checks.rules.findings import Finding
from tarmac.checks.under_load import UnderLoad
from tarmac.distribution import DISTRIBUTION
from tarmac.machine import Gpu


def judge_devices(evidence: Evidence, findings: Sequence[Finding]) -> tuple[Verdict, ...]:
    """Return the verdicts on all GPUs, on cards that NVML does not show, and on the CPU."""
    inventory = evidence.inventory
    loads = {load.index: load for load in evidence.under_load}
    verdicts = [_of_gpu(gpu, loads.get(gpu.index), findings) for gpu in inventory.gpus]
    shown = {gpu.address for gpu in inventory.gpus}
    verdicts += [_of_card(card, findings) for card in inventory.cards if card.address not in shown]
    host = inventory.host
    text = f"{host.cpu}, {host.cores} cores, {inventory.usable_memory_bytes / 2**30:.0f} GiB"
    if inventory.limits.cpus is not None and inventory.limits.cpus < host.cores:
        text += f"; {inventory.limits.cpus:g} of its cores may be used"
    return (*verdicts, Verdict(name="CPU", answer="ok", text=text))


def _of_card(card: PciCard, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict on a card that NVML does not show."""
    name, driver = f"card {card.address}", card.driver or "none"
    memory = f", {card.memory_bytes / 2**30:.0f} GiB" if card.memory_bytes else ""
    text = f"{card.vendor} {card.device}{memory}, driver {driver}"
    if card.vendor == "nvidia":
        return Verdict(name=name, answer="failure", text=f"{text}: not usable")
    answer, suffix = _worst(name, findings)
    return Verdict(name=name, answer=answer, text=text + suffix)


def _of_gpu(gpu: Gpu, load: UnderLoad | None, findings: Sequence[Finding]) -> Verdict:
    answer, suffix = _worst(gpu.label, findings)
    if gpu.error is not None:
        return Verdict(name=gpu.label, answer="failure", text=gpu.error)
    facts = [gpu.name or "unknown"]
    if gpu.memory_bytes is not None:
        facts.append(f"{gpu.memory_bytes / 2**30:.0f} GiB")
    if gpu.mig_devices:
        facts.append(f"{len(gpu.mig_devices)} MIG partitions")
    if gpu.temperature_c is not None:
        facts.append(f"{gpu.temperature_c} °C")
    if load is not None:
        facts.append(_under_load(load))
    return Verdict(name=gpu.label, answer=answer, text=", ".join(facts) + suffix)


def _under_load(load: UnderLoad) -> str:
    """Return the readings during measurements: ``under load 699 W, 80 °C, 1,881 MHz``."""
    clock = load.sm_clock_mhz.get("median")
    readings = [
        None if load.power_watts is None else f"{load.power_watts:.0f} W",
        None if load.temperature_c is None else f"{load.temperature_c} °C",
        None if clock is None else f"{clock:,} MHz",
    ]
    return " ".join(("under load", ", ".join(filter(None, readings)))).rstrip()


def _not_installed(probe: Probe) -> str:
    text = f"not installed in {probe.where}"
    if probe.image is not None:
        return text
    if probe.framework in PROVISIONED:
        return f"{text}; to build what has it: tarmac check --provision {probe.framework}"
    if probe.framework == "torch":
        return f"{text}; to install it: pip install '{DISTRIBUTION}[train]'"
    return text


def judge_framework(probe: Probe, evidence: Evidence, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict on a probe's framework."""
    name = probe.label
    if probe.outcome == "not installed":
        return Verdict(name=name, answer="absent", text=_not_installed(probe))
    if probe.outcome == "not started":
        text = f"gave no answer: {probe.detail}"
        return Verdict(name=name, answer="unknown", text=text)
    answer, suffix = _worst(probe.label, findings)
    version = probe.result.get("version")
    facts = [str(version)] if version else []
    if probe.outcome != "done":
        text = ", ".join((*facts, f"{probe.outcome}: {probe.detail}".rstrip(": ")))
        return Verdict(name=name, answer="failure", text=text)
    devices = probe.result.get("devices", ())
    gpus = [device for device in devices if device["kind"] == "gpu"]
    facts += [device_in_words(device) for device in (gpus or devices)]
    if probe.seen_on_gpus:
        facts.append(f"the driver saw it on GPU {', '.join(map(str, probe.seen_on_gpus))}")
    if not gpus and answer == "ok":
        reason = _why_no_gpu(probe, evidence.inventory, findings)
        return Verdict(
            name=name,
            answer="cpu only",
            text=f"works, on the CPU; no GPU was used, because {reason}" + _behind(facts),
        )
    return Verdict(name=name, answer=answer, text=", ".join(filter(None, facts)) + suffix)


def _why_no_gpu(probe: Probe, inventory: Inventory, findings: Sequence[Finding]) -> str:
    if "cpu_because" in probe.result and inventory.gpus:
        return str(probe.result["cpu_because"])
    if set(probe.result.get("wanted", ())) == {"cpu"}:
        return "only the CPU was asked for"
    # A finding that hides "silent-cpu" is the reason why no GPU is used.
    for finding in findings:
        failure = read_catalogue()[finding.code]
        if "silent-cpu" in failure.hides and (not failure.own or probe.label in finding.where):
            return finding.title
    return "none is here"


def _behind(facts: Sequence[str]) -> str:
    shown = ", ".join(filter(None, facts))
    return f" ({shown})" if shown else ""


def _worst(where: str, findings: Sequence[Finding]) -> tuple[Answer, str]:
    """Return a device's or framework's worst answer by its findings, and the findings' titles."""
    own = [
        finding
        for finding in findings
        if any(place == where or place.startswith(f"{where} on ") for place in finding.where)
    ]
    titles = [finding.title for finding in own if finding.level != "note"]
    suffix = f"; {', '.join(titles)}" if titles else ""
    levels = {finding.level for finding in own}
    if "failure" in levels:
        return "failure", suffix
    return ("warning", suffix) if "warning" in levels else ("ok", suffix)
