"""What a pod of `tarmac check --on kubernetes` says of its node."""

from __future__ import annotations

import json
import platform

import pytest

from tarmac.checks.evidence import Evidence, Probe
from tarmac.checks.pod_look import shorten, tell
from tarmac.checks.report.make import make_report


@pytest.fixture
def told(inventory_of):
    """Return a function that tells of a machine's GPUs, of which the pod was given so many."""

    def of(machine: str, num_gpus: int, **said):
        gpus = [{"kind": "gpu", "name": "cuda:0"}]
        probe = {"outcome": "done", "result": {"devices": gpus, "build": {"cuda": "13.0"}}}
        probes = (Probe(framework="torch", where="this Python", **{**probe, **said}),)
        evidence = Evidence(inventory=inventory_of(machine), probes=probes)
        return tell(make_report(evidence, seconds=1.0), num_gpus)

    return of


def test_gpus_that_compute_are_told_by_name_with_the_driver(told):
    answer = told("pair", 2)
    assert (answer["failures"], answer["unseen"]) == ([], [])
    assert sum(answer["gpus"].values()) == 2
    assert answer["driver"]
    assert answer["python"] == platform.python_version()


def test_a_gpu_that_is_not_shown_or_not_fit_is_told(told):
    assert told("healthy", 2)["failures"] == ["the driver shows 1 of 2 GPUs"]
    (failure,) = told("ecc-errors", 1)["failures"]
    assert failure.startswith("uncorrected memory errors (GPU 0)")


def test_who_was_given_no_gpu_says_nothing_of_those_that_it_sees(told):
    answer = told("ecc-errors", 0)
    assert (answer["failures"], answer["unseen"], answer["gpus"]) == ([], [], {})


def test_an_answer_fits_a_termination_log_and_counts_what_it_leaves_out(told):
    answer = told("pair", 2) | {"failures": ["ä" * 300] * 20, "unseen": ["seen"]}
    written = shorten(answer)
    assert len(written) <= 4096
    read = json.loads(written)
    *lines, last = read["failures"]
    assert last == f"and {20 - len(lines)} more"
    assert lines
    assert read["unseen"] == ["seen"]
    # What is short is left as it is.
    assert json.loads(shorten(told("pair", 2))) == told("pair", 2)
