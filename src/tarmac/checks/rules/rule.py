"""The type of a rule: a pure function from evidence to a failure's places and what shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence, Probe
    from tarmac.machine import Gpu

# Pairs of a failure's place and the text that shows it.
Hits: TypeAlias = Iterator[tuple[str, str]]
Rule: TypeAlias = Callable[["Evidence"], Hits]


def for_each_gpu(look: Callable[[Gpu], str | None]) -> Rule:
    """Return a rule that judges each GPU that answers.

    Args:
        look: Returns the text that shows the failure on a GPU; None where the GPU has none.
    """

    def rule(evidence: Evidence) -> Hits:
        for gpu in evidence.inventory.gpus:
            shown = look(gpu) if gpu.error is None else None
            if shown is not None:
                yield gpu.label, shown

    return rule


def probes_of(evidence: Evidence, framework: str) -> Iterator[Probe]:
    """Yield the probes of a framework, where it is installed."""
    for probe in evidence.probes:
        if probe.framework == framework and probe.outcome != "not installed":
            yield probe


def measured_devices(evidence: Evidence) -> Iterator[tuple[Probe, Mapping[str, Any]]]:
    """Yield each device in the probes' results, with its probe."""
    for probe in evidence.probes:
        for device in probe.result.get("devices", ()):
            yield probe, device


def place_of(probe: Probe, device: Mapping[str, Any]) -> str:
    """Return the name of a probe's device: ``torch on cuda:0``."""
    return f"{probe.label} on {device['name']}"


def value_of(probe: Probe, *keys: str) -> Any:
    """Return a nested value of a probe's result; None where a key is missing."""
    value: Any = probe.result
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def should_use_gpu(probe: Probe, evidence: Evidence) -> bool:
    """Return whether the machine has an NVIDIA GPU and the probe was not limited to the CPU."""
    is_here = bool(evidence.inventory.gpus) or bool(evidence.inventory.nvidia_cards)
    return is_here and set(probe.result.get("wanted", ())) != {"cpu"}
