"""Explanations from events: why a Job creates no pods, why a pod does not start."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tarmac.kubernetes.answers import Object, in_form
from tarmac.kubernetes.quantities import quantity

_QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.+), used: (?P<used>.+), "
    r"limited: (?P<most>.+)$"
)
_TRY = re.compile(r'^Error creating: (?:pods "[^"]*" is forbidden: )?')


@in_form
def explain_event(event: Object) -> str:
    """Return the message of an event; an exceeded quota is explained in numbers."""
    text = " ".join(str(event.get("message") or event.get("reason") or "").split())
    return explain_quota(text) or text


@in_form
def explain_creation(events: Iterable[Object]) -> str | None:
    """Return why a Job cannot create its pods now, from its events, oldest first.

    None if the Job has created a pod since, or if no event gives a reason.
    """
    last = None
    for event in events:
        if event.get("reason") in ("FailedCreate", "SuccessfulCreate"):
            last = event
    if last is None or last["reason"] == "SuccessfulCreate":
        return None
    # The pod's name differs at each try; without it, the same reason stays the same text.
    return _TRY.sub("", explain_event(last))


def explain_quota(message: str) -> str | None:
    """Return the numbers of an exceeded quota; None if the message is about something else.

    Example:
        >>> explain_quota('pods "a" is forbidden: exceeded quota: team, requested: '
        ...     'requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=8, '
        ...     'limited: requests.nvidia.com/gpu=8')
        'quota team: 8 of 8 requests.nvidia.com/gpu are in use, 1 more is requested'
    """
    match = _QUOTA.search(message)
    if match is None:
        return None
    requests, used, most = (_amounts(match[name]) for name in ("asked", "used", "most"))
    never = [
        f"the limit of {name} is {most[name]}, and {amount} is requested"
        for name, amount in requests.items()
        if name in most and quantity(amount) > quantity(most[name])
    ]
    if never:
        return f"quota {match['name']} never lets it start: {'; '.join(never)}"
    parts = [
        f"{used.get(name, '?')} of {most.get(name, '?')} {name} are in use, {amount} more is "
        "requested"
        for name, amount in requests.items()
    ]
    return f"quota {match['name']}: " + "; ".join(parts)


def _amounts(text: str) -> dict[str, str]:
    return {name: amount for name, _, amount in (it.partition("=") for it in text.split(","))}
