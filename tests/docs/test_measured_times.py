"""How long trainings took is said alike by the program and by its page."""

from __future__ import annotations

import re
from pathlib import Path

from tarmac.workloads import find_workload, workload_names

PAGE = Path(__file__).parents[2] / "docs/workloads.md"

_ROW = re.compile(r"\| `([\w-]+)` \| (an? .*, \d{4}-\d\d-\d\d) \| \[([^\]]+)\]\([^)]*\)(.*) \|")
_NUMBER = re.compile(r"\d[\d,.]*\d|\d")


def test_the_page_and_the_program_say_the_same_times():
    shown = {
        name: (place, _NUMBER.findall(figures))
        for name, place, figures, _ in _ROW.findall(PAGE.read_text(encoding="utf-8"))
    }
    said = {}
    for name in workload_names():
        took, _, place = find_workload(name).took.partition(" on two cores of ")
        if took:
            said[name] = (place, _NUMBER.findall(took))
    assert said == shown
    assert len(said) >= 7
