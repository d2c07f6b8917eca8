"""The emulator answers other requests than those of Jobs as a real server has done."""

from __future__ import annotations

from collections.abc import Callable

from emulator import Emulator
from recordings.answers import answers_of, kept_answers


def test_requests_are_answered_in_the_words_that_are_recorded(
    start_cluster: Callable[..., Emulator],
) -> None:
    """Sizes, rights, what is not there, what is forgotten, and what a quota has no room for."""
    asked = start_cluster(nodes=0)
    if isinstance(asked, Emulator):
        asked.compact()
    with asked.nobody() as nobody:
        answers, quotas = answers_of(asked.admin, nobody, asked.namespace)
    kept = kept_answers()
    assert answers == kept[0]
    assert quotas == kept[1]
