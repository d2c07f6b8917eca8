"""The emulator's watches agree with what a real server's have said of the same stories."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable

import pytest
from emulator import Emulator
from recordings.stories import STORIES, Event, Teller
from recordings.streams import kept_streams

_LONG_S = 20


@pytest.mark.parametrize("name", STORIES)
def test_a_job_goes_the_way_that_is_recorded(
    name: str, start_cluster: Callable[..., Emulator]
) -> None:
    """Each step ends as it did; on the way nothing is said that was not, or in another order."""
    asked = start_cluster(nodes=0)
    teller = Teller(asked.admin, asked.namespace, STORIES[name])
    for step, recorded in zip(STORIES[name].steps, kept_streams()[name], strict=True):
        teller.do(step)
        for kind, events in recorded.items():
            kept, said = _by_object(events), _heard(teller, kind, events)
            assert _lasts(said) == _lasts(kept), (step, kind)
            if not isinstance(asked, Emulator):
                # A real one's controllers race: each time they may be first who were second.
                continue
            for which, views in said.items():
                rest = iter(kept[which])
                assert all(view in rest for view in views), (step, kind, views, kept[which])


def _heard(teller: Teller, kind: str, recorded: Iterable[Event]) -> dict[str, list[Event]]:
    lasts = _lasts(_by_object(recorded))
    said: list[Event] = []
    if lasts:
        for event in teller.hear(kind, _LONG_S):
            said.append(event)
            if _lasts(_by_object(said)) == lasts:
                break
    return _by_object(said)


def _by_object(events: Iterable[Event]) -> dict[str, list[Event]]:
    found = collections.defaultdict(list)
    for event in events:
        found[event[1].get("pod", "")].append(event)
    return found


def _lasts(by_object: dict[str, list[Event]]) -> dict[str, Event]:
    return {which: events[-1] for which, events in by_object.items()}
