"""What a quick check says of the GPUs that a job was given, and not of others."""

from __future__ import annotations

import json

import pytest

from forked import run_python
from tarmac.checks import pod_gpus
from tarmac.checks.evidence import Evidence, Probe
from tarmac.checks.given_gpus import judge_given
from tarmac.checks.pod_gpus import judge_pod
from tarmac.checks.report.make import make_report
from tarmac.cli import preflight
from tarmac.kubernetes import UNFIT

FIRST = "GPU-7d3c132a-675f-077e-3bf7-99d79213d062"
SECOND = "GPU-9c1f0d2e-1111-4e2a-8a5c-6d0f3a2b1c00"


@pytest.fixture
def judge(inventory_of):
    """Return a function that judges GPUs of a machine by what PyTorch's probe has said there."""

    def of(machine: str, *uuids: str, **said):
        gpus = [{"kind": "gpu", "name": "cuda:0"}]
        probe = {"outcome": "done", "result": {"devices": gpus, "build": {"cuda": "13.0"}}}
        probes = (Probe(framework="torch", where="this Python", **{**probe, **said}),)
        evidence = Evidence(inventory=inventory_of(machine), probes=probes)
        return judge_given(make_report(evidence, seconds=1.0), uuids)

    return of


@pytest.mark.parametrize(
    ("machine", "num_gpus", "failures"),
    [
        ("pair", 2, []),
        ("healthy", 2, ["the driver shows 1 of 2 GPUs"]),
        (
            "ecc-errors",
            1,
            [
                "uncorrected memory errors (GPU 0): 3 uncorrected since the driver was loaded, "
                "pages or rows are pending replacement"
            ],
        ),
    ],
)
def test_a_pods_gpus_are_all_that_it_sees(inventory_of, machine, num_gpus, failures):
    gpus = [{"kind": "gpu", "name": "cuda:0"}]
    result = {"devices": gpus, "build": {"cuda": "13.0"}}
    probe = Probe(framework="torch", where="this Python", outcome="done", result=result)
    evidence = Evidence(inventory=inventory_of(machine), probes=(probe,))
    assert judge_pod(make_report(evidence, seconds=1.0), num_gpus) == (failures, [])


@pytest.mark.parametrize(("machine", "code"), [("pair", 0), ("ecc-errors", UNFIT)])
def test_a_pods_first_failure_is_the_last_line_of_its_log(
    inventory_of, monkeypatch, capsys, machine, code
):
    report = make_report(Evidence(inventory=inventory_of(machine)), seconds=1.0)
    monkeypatch.setattr(pod_gpus, "check", lambda **_: report)
    monkeypatch.setattr("sys.argv", ["pod_gpus", "2"])
    assert pod_gpus.main() == code
    failures, unseen = judge_pod(report, 2)
    assert unseen
    assert capsys.readouterr().err.splitlines() == [*unseen, *reversed(failures)]


def test_nothing_is_said_of_gpus_that_compute(judge):
    assert judge("pair", FIRST, SECOND) == ([], [])


def test_what_the_driver_says_of_a_given_gpu_fails_it_and_of_another_does_not(judge):
    failures, _ = judge("ecc-errors", FIRST)
    assert failures == [
        "uncorrected memory errors (GPU 0): 3 uncorrected since the driver was loaded, pages or "
        "rows are pending replacement"
    ]
    assert judge("fell-off-bus", FIRST)[0] == []


def test_a_gpu_that_the_driver_does_not_show_is_no_fit_one(judge):
    assert judge("healthy", SECOND)[0] == [f"the driver does not show {SECOND}"]


@pytest.mark.parametrize(
    ("said", "is_failure"),
    [
        ({"outcome": "hung"}, True),
        ({"outcome": "failed", "detail": "RuntimeError: CUDA error: out of memory"}, True),
        (
            {
                "outcome": "failed",
                "detail": "ModuleNotFoundError: No module named 'sympy'",
                "result": {"stage": "import"},
            },
            False,
        ),
        ({"outcome": "not started", "detail": "python: Exec format error"}, False),
    ],
)
def test_pytorch_speaks_against_a_gpu_only_where_its_installation_is_not_the_fault(
    judge, said, is_failure
):
    failures, unseen = judge("healthy", FIRST, **{"result": {}, **said})
    assert (bool(failures), bool(unseen)) == (is_failure, not is_failure), (failures, unseen)


def test_the_answer_is_one_object_whatever_else_is_printed(on_machine):
    env = on_machine("ecc-errors", CUDA_VISIBLE_DEVICES=FIRST)
    done = run_python("-m", "tarmac.checks.given_gpus", FIRST, env=env, check=True)
    answer = json.loads(done.stdout)
    assert answer["failures"][0].startswith("uncorrected memory errors (GPU 0): 3 uncorrected")


@pytest.mark.parametrize("machine", ["healthy", "ecc-errors"])
def test_tasks_with_environments_of_their_own_are_not_told_of_tarmacs_frameworks(
    inventory_of, tmp_path, monkeypatch, capsys, machine
):
    built = {"devices": [{"kind": "cpu", "name": "cpu"}], "build": {"cuda": None}}
    probe = Probe(framework="torch", where="this Python", outcome="done", result=built)
    report = make_report(Evidence(inventory=inventory_of(machine), probes=(probe,)), seconds=1.0)
    assert "torch-cpu-build" in {finding.code for finding in report.findings}
    monkeypatch.setattr(preflight, "quick_check", lambda: report)
    for own_python in (True, False):
        preflight.check_into(tmp_path, own_python=own_python, quiet=False)
        printed = capsys.readouterr().out
        assert ("torch-cpu-build" in printed) == own_python
        assert ("uncorrected memory errors" in printed) == (machine == "ecc-errors")
