"""What the pages say of the code is compared with the code."""

from __future__ import annotations

import re

from doc_pages import PAGES, ROOT, blocks, page_id


def test_the_workload_in_the_docs_is_under_25_lines():
    (block,) = [
        block for block in blocks(ROOT / "docs" / "own-workload.md") if block.file == "my_model.py"
    ]
    assert len(block.text.strip().splitlines()) < 25


def test_the_readme_counts_the_known_failures():
    from tarmac.checks import read_catalogue

    page = (ROOT / "README.md").read_text()
    counted = [int(number) for number in re.findall(r"\[(\d+) known failures\]", page)]
    assert counted == [len(read_catalogue())]


def test_the_page_of_workloads_shows_every_workload():
    from tarmac.workloads import workload_names

    page = (ROOT / "docs" / "workloads.md").read_text()
    assert all(f"`{name}`" in page for name in workload_names())
