"""The emulator says to Jobs what a real server has said; a real one that is asked says it still."""

from __future__ import annotations

from collections.abc import Callable

from emulator import Emulator
from recordings.verdicts import kept_verdicts, verdicts_of


def test_jobs_are_taken_and_refused_in_the_words_that_are_recorded(
    start_cluster: Callable[..., Emulator],
) -> None:
    asked = start_cluster(nodes=0)
    assert verdicts_of(asked.admin.post, asked.namespace) == kept_verdicts()
