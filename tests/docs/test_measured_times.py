"""How long trainings took is alike in the program and on its page."""

from __future__ import annotations

import re
from pathlib import Path

from tarmac.workloads import find_workload, workload_names

PAGE = Path(__file__).parents[2] / "docs/workloads.md"

_ROW = re.compile(r"\| `([\w-]+)` \| ([^|]*, \d{4}-\d\d-\d\d) \| \[([^\]]+)\]\([^)]*\)(.*) \|")
_NUMBER = re.compile(r"\d[\d,.]*\d|\d")


def test_the_page_and_the_program_say_the_same_times():
    on_page = [
        (name, place, _NUMBER.findall(figures))
        for name, place, figures, _ in _ROW.findall(PAGE.read_text(encoding="utf-8"))
    ]
    by_program = [
        (name, place, _NUMBER.findall(seconds))
        for name in workload_names()
        for seconds, _, place in (time.partition(" on ") for time in find_workload(name).took)
    ]
    assert sorted(by_program) == sorted(on_page)
    assert len(by_program) >= 13
