"""Checks of pods against the quotas and limit ranges of a namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tarmac.kubernetes.quantities import quantity

if TYPE_CHECKING:
    from tarmac.kubernetes.answers import Object

_SIDES = ("requests", "limits")
# A quota may name these resources without a side: `cpu` means `requests.cpu`.
_SHORT = ("cpu", "memory", "ephemeral-storage")


def why_out_of_bounds(
    spec: Mapping[str, Any], num_pods: int, quotas: Iterable[Object], ranges: Iterable[Object]
) -> str:
    """Return why a namespace can never run these pods at once; empty if it can.

    The current usage of other pods does not count, because other pods end.

    Args:
        spec: Spec of each pod, as the API has it.
        num_pods: Number of pods that must run at once.
        quotas: ResourceQuotas of the namespace. Quotas with a scope are ignored: they apply to
            some pods only.
        ranges: LimitRange objects of the namespace, as the API has them.
    """
    ranges = [*ranges]
    return next(_beyond_ranges(spec, ranges), "") or next(
        _beyond_quotas(spec, num_pods, quotas, ranges), ""
    )


def _beyond_ranges(spec: Mapping[str, Any], ranges: Iterable[Object]) -> Iterator[str]:
    containers = [_amounts(container) for container in spec["containers"]]
    for about in ranges:
        name = about["metadata"]["name"]
        for limit in about["spec"].get("limits") or ():
            counted = {"Container": containers, "Pod": [_sum(containers)]}.get(limit["type"], [])
            for amounts in counted:
                for words in _beyond(amounts, limit):
                    yield f"{words} (limit range {name}, per {limit['type'].lower()})"


def _beyond(amounts: Mapping[str, Mapping[str, float]], limit: Mapping[str, Any]) -> Iterator[str]:
    for resource, most in (limit.get("max") or {}).items():
        amount = max(amounts[side].get(resource, 0.0) for side in _SIDES)
        if amount > quantity(most):
            yield f"it asks for {_shown(amount)} of {resource}, and {most} is the most"
    for resource, least in (limit.get("min") or {}).items():
        # The limit range fills in a missing amount with a default of at least its minimum.
        values = [amounts[side][resource] for side in _SIDES if resource in amounts[side]]
        amount = min(values, default=quantity(least))
        if amount < quantity(least):
            yield f"it asks for {_shown(amount)} of {resource}, and {least} is the least"


def _beyond_quotas(
    spec: Mapping[str, Any], num_pods: int, quotas: Iterable[Object], ranges: Iterable[Object]
) -> Iterator[str]:
    total = _sum([_amounts(container) for container in spec["containers"]])
    defaults = {
        (side, resource)
        for about in ranges
        for limit in about["spec"].get("limits") or ()
        for side, names in (("limits", ("default", "max")), ("requests", ("defaultRequest",)))
        for name in names
        for resource in limit.get(name) or {}
    }
    for quota in quotas:
        about = quota["spec"]
        if about.get("scopes") or about.get("scopeSelector"):
            continue
        for name, most in (about.get("hard") or {}).items():
            team = f"quota {quota['metadata']['name']}"
            side, _, resource = name.partition(".") if name.startswith(_SIDES) else ("", "", name)
            if not side and resource in _SHORT:
                side = "requests"
            if side:
                amount = total[side].get(resource)
                if amount is None and resource in _SHORT and (side, resource) not in defaults:
                    yield (
                        f"{team} requires {side}.{resource} of every container: write it into "
                        "options.kubernetes.pod, at spec.containers"
                    )
                amount = (amount or 0.0) * num_pods
            else:
                amount = float(num_pods) if name in ("pods", "count/pods") else 0.0
            if amount > quantity(most):
                yield f"it asks for {_shown(amount)} of {name}, and {most} is the limit ({team})"


def _amounts(container: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    resources = container.get("resources") or {}
    return {
        side: {name: quantity(amount) for name, amount in (resources.get(side) or {}).items()}
        for side in _SIDES
    }


def _sum(containers: Iterable[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    result: dict[str, dict[str, float]] = {side: defaultdict(float) for side in _SIDES}
    for amounts in containers:
        for side in _SIDES:
            for name, amount in amounts[side].items():
                result[side][name] += amount
    return result


def _shown(amount: float) -> str:
    for size, unit in ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi")):
        if amount >= size:
            return f"{amount / size:.4g}{unit}"
    return f"{amount:g}"
