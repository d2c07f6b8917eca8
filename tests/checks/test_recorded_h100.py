"""A healthy H100, as its driver and the probes of PyTorch and JAX were recorded there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.checks.evidence import Evidence
from tarmac.checks.report.make import make_report
from tarmac.checks.report.model import Report


@pytest.fixture(scope="module")
def report() -> Report:
    text = (Path(__file__).parent / "recorded" / "h100.json").read_text()
    return make_report(Evidence.model_validate_json(text), seconds=46.0)


def test_a_healthy_h100_has_notes_alone(report):
    assert {finding.code: finding.level for finding in report.findings} == {
        "throttle-power": "note",
        "slower-framework": "note",
        "jax-preallocate": "note",
    }
    assert report.ok


def test_no_verdict_on_a_healthy_h100_is_less_than_ok(report):
    answers = {verdict.name: verdict.answer for verdict in (*report.devices, *report.frameworks)}
    assert answers == dict.fromkeys(("GPU 0", "CPU", "torch", "jax"), "ok")
    (slower,) = (finding for finding in report.findings if finding.code == "slower-framework")
    assert slower.where == ("jax on cuda:0",)
    assert slower.evidence == "1977 GB/s of its memory, torch reaches 2949"
