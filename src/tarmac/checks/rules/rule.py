"""What a rule is: a pure function from evidence to where a failure is, and what shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.checks.evidence import Evidence, Probe
    from tarmac.machine import Gpu

# Where a failure is, and what shows it.
Hits: TypeAlias = Iterator[tuple[str, str]]
Rule: TypeAlias = Callable[["Evidence"], Hits]


def for_each_gpu(look: Callable[[Gpu], str | None]) -> Rule:
    """Return the rule that looks at each GPU that answers.

    Args:
        look: Returns what shows the failure on a GPU; None where it has none.
    """

    def rule(evidence: Evidence) -> Hits:
        for gpu in evidence.inventory.gpus:
            shown = look(gpu) if gpu.error is None else None
            if shown is not None:
                yield gpu.label, shown

    return rule


def probes_of(evidence: Evidence, framework: str) -> Iterator[Probe]:
    """Yield the probes of a framework that is installed."""
    for probe in evidence.probes:
        if probe.framework == framework and probe.outcome != "not installed":
            yield probe


def measured_devices(evidence: Evidence) -> Iterator[tuple[Probe, Mapping[str, Any]]]:
    """Yield what each probe says of each device."""
    for probe in evidence.probes:
        for device in probe.result.get("devices", ()):
            yield probe, device


def place_of(probe: Probe, device: Mapping[str, Any]) -> str:
    """Name a device as a probe sees it: ``torch on cuda:0``."""
    return f"{probe.label} on {device['name']}"


def value_of(probe: Probe, *keys: str) -> Any:
    """Return a value deep in a probe's result; None where it is not."""
    value: Any = probe.result
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def should_use_gpu(probe: Probe, evidence: Evidence) -> bool:
    """Tell whether a GPU is here and the probe was not told to keep to the CPU."""
    is_here = bool(evidence.inventory.gpus) or bool(evidence.inventory.nvidia_cards)
    return is_here and set(probe.result.get("wanted", ())) != {"cpu"}
