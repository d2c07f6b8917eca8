"""Tests of the page of a check that was kept."""

from __future__ import annotations

import json
import re

import pytest

from tarmac.checks import read_report
from tarmac.errors import RequestError
from tarmac.pages import check_page, page_of, render_page

FINDING = {
    "code": "driver-old",
    "level": "failure",
    "title": "the driver is <old>",
    "where": ["GPU 0"],
    "evidence": "535 & older",
    "cause": "It is.",
    "fix": ["sudo apt install nvidia-driver-580"],
    "source": "javascript:alert(1)",
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """What `tarmac check --json` says of this machine, without any framework."""
    from tarmac.checks.evidence import Evidence
    from tarmac.checks.inventory import read_inventory
    from tarmac.checks.report.make import make_report

    report = make_report(Evidence(inventory=read_inventory(), probes=()), seconds=1.5)
    return json.loads(report.model_dump_json())


def written(tmp_path, content):
    path = tmp_path / "check.json"
    path.write_text(json.dumps(content))
    return path


def test_a_kept_report_has_a_page(kept, tmp_path):
    path = written(tmp_path, kept | {"findings": [], "requirements": []})
    html = render_page(page_of([path]))
    assert "tarmac check: All is well" in html
    assert 'class="chip ok">holds</span>' in html
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len({*ids})


def test_findings_come_first_with_what_to_type_and_no_link_that_runs(kept, tmp_path):
    required = [{"text": "gpus>=2", "met": False, "found": "gpus 0"}]
    path = written(tmp_path, kept | {"findings": [FINDING], "requirements": required})
    page = check_page(read_report(path))
    html = render_page(page)
    assert next(iter(page.sections)).id == "findings"
    assert "tarmac check: Something is wrong" in html
    assert "the driver is &lt;old&gt;" in html
    assert "sudo apt install nvidia-driver-580" in html
    assert 'href="javascript' not in html
    assert ">gpus&gt;=2</th>" in html


@pytest.mark.parametrize("content", [{}, [], {"schema_version": 99, "inventory": {}}])
def test_a_file_that_is_no_report_is_refused_in_words(tmp_path, content):
    with pytest.raises(RequestError, match=r"check\.json"):
        page_of([written(tmp_path, content)])
