"""Amounts of resources, as Kubernetes writes them: 500m, 2Gi, 1e3."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

PATTERN = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))((?:[EPTGMk]|[EPTGMK]i|[munpf])|[eE][+-]?\d+)?$")
_SUFFIXES = {
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{letter: Decimal(1000) ** -power for power, letter in enumerate("munpf", 1)},
}
Amounts = dict[str, Decimal]


def amount(text: Any) -> Decimal:
    """Return how much a quantity is, in its base unit.

    Raises:
        ValueError: It is none.
    """
    found = PATTERN.match(str(text))
    if not found:
        raise ValueError(f"{text!r} is no quantity")
    number, suffix = found.groups()
    if not suffix:
        return Decimal(number)
    if suffix[0] in "eE" and len(suffix) > 1 and suffix != "Ei":
        return Decimal(number + suffix)
    return Decimal(number) * _SUFFIXES[suffix]


def written(value: Decimal, like: str = "") -> str:
    """Return a quantity as the server writes it, for memory in binary units where it is whole."""
    if value == value.to_integral():
        whole = int(value)
        if like in ("memory", "ephemeral-storage") and whole:
            for letter, power in zip("PTGMK", range(5, 0, -1), strict=True):
                if whole % 1024**power == 0:
                    return f"{whole // 1024**power}{letter}i"
        return str(whole)
    return f"{math.ceil(value * 1000)}m"


def total(many: Iterable[Mapping[str, Any]]) -> Amounts:
    """Return the sum of lists of resources."""
    result: Amounts = {}
    for resources in many:
        for name, text in resources.items():
            result[name] = result.get(name, Decimal(0)) + amount(text)
    return result


def pod_requests(spec: Mapping[str, Any], side: str = "requests") -> Amounts:
    """Return what a pod asks a node for.

    Containers are added up, with sidecars; init containers run one after another, beside the
    sidecars before them, and the largest counts (``pkg/api/v1/resource/helpers.go``).
    """
    running = total((it.get("resources") or {}).get(side) or {} for it in spec["containers"])
    beside: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = total([(container.get("resources") or {}).get(side) or {}])
        for name, much in asked.items():
            now = beside.get(name, Decimal(0)) + much
            if container.get("restartPolicy") == "Always":
                beside[name] = now
                running[name] = running.get(name, Decimal(0)) + much
            peak[name] = max(peak.get(name, Decimal(0)), now)
    return {
        name: max(running.get(name, Decimal(0)), peak.get(name, Decimal(0)))
        for name in {*running, *peak}
    }
