"""What events say: why a Job makes no pods, why a pod does not begin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tarmac.kubernetes.answers import in_form
from tarmac.kubernetes.quantities import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tarmac.kubernetes.answers import Object

_QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.+), used: (?P<used>.+), "
    r"limited: (?P<most>.+)$"
)
_TRY = re.compile(r'^Error creating: (?:pods "[^"]*" is forbidden: )?')


@in_form
def explain_event(event: Object) -> str:
    """Return an event's words, a quota's as numbers."""
    text = " ".join(str(event.get("message") or event.get("reason") or "").split())
    return explain_quota(text) or text


@in_form
def explain_creation(events: Iterable[Object]) -> str | None:
    """Return why a Job cannot make its pods now, from its events, oldest first.

    None where it has made one since, or nothing is said.
    """
    last = None
    for event in events:
        if event.get("reason") in ("FailedCreate", "SuccessfulCreate"):
            last = event
    if last is None or last["reason"] == "SuccessfulCreate":
        return None
    # Each try has another pod's name, and would be another reason.
    return _TRY.sub("", explain_event(last))


def explain_quota(message: str) -> str | None:
    """Return what a quota that is used up holds back; None where it is about something else.

    Example:
        >>> explain_quota('pods "a" is forbidden: exceeded quota: team, requested: '
        ...     'requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=8, '
        ...     'limited: requests.nvidia.com/gpu=8')
        'quota team: 8 of 8 requests.nvidia.com/gpu are in use, 1 more is asked'
    """
    match = _QUOTA.search(message)
    if match is None:
        return None
    requests, used, most = (_amounts(match[name]) for name in ("asked", "used", "most"))
    never = [
        f"{most[name]} is all there is of {name}, and {amount} is asked"
        for name, amount in requests.items()
        if name in most and quantity(amount) > quantity(most[name])
    ]
    if never:
        return f"quota {match['name']} never lets it start: {'; '.join(never)}"
    parts = [
        f"{used.get(name, '?')} of {most.get(name, '?')} {name} are in use, {amount} more is asked"
        for name, amount in requests.items()
    ]
    return f"quota {match['name']}: " + "; ".join(parts)


def _amounts(text: str) -> dict[str, str]:
    return {name: amount for name, _, amount in (it.partition("=") for it in text.split(","))}
