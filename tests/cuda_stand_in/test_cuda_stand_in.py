"""The host side of every training on a GPU, over a stand-in for CUDA's libraries.

Kernels compute nothing there: this shows what is raised, asked of the GPU and left behind. What the
numbers are is for the tests marked `gpu`, on one.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bed import DEFAULT, VERSIONS, Bed, NoBedError, find_bed
from bounds import GROUPS, measure, read_bounds

pytestmark = [pytest.mark.cuda_stand_in, pytest.mark.timeout(700)]

TESTS = Path(__file__).parents[1]
BOUNDS = read_bounds()
CASES = [(group, name) for group, cases in BOUNDS.items() for name in cases]
# The others of `VERSIONS` show the floor of `pyproject.toml`, with the same bounds.
FLOOR = VERSIONS[0]

# What waits for the device within a step, and why it may.
WAITING = {
    "feed direct": "it sends from pageable memory when the step asks for it",
    "unrecordable, feed direct": "likewise",
    "unrecordable, feed resident": "its model reads a value back",
    "unrecordable, feed prefetch": "likewise",
    "towers of one": "replicas hand gradients over through the host",
    "towers of two": "likewise",
    "towers of two, accumulate": "likewise",
    "towers of two, convolutions": "likewise",
    "towers of two, feed prefetch": "likewise",
    "towers of two, fp16": "likewise",
    "ddp of 2, synchronised normalisation": "its sizes come from the host in each layer",
}


@functools.cache
def figures_of(torch: str, group: str) -> dict[str, dict[str, Any]]:
    """Measure a group once for all tests of this process."""
    try:
        bed = find_bed(torch)
    except NoBedError as error:
        pytest.skip(str(error))
    return measure(bed, group)


@pytest.fixture
def bed() -> Bed:
    try:
        return find_bed()
    except NoBedError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("group", GROUPS)
def test_every_case_has_bounds(group):
    made, bound = figures_of(DEFAULT, group), BOUNDS[group]
    assert made.keys() == bound.keys(), "write them: make gpu-bounds"


@pytest.mark.parametrize(("group", "name"), CASES)
def test_a_training_asks_no_more_of_the_gpu_and_leaves_no_more_than_its_bounds(group, name):
    check_bounds(DEFAULT, group, name)


@pytest.mark.parametrize(("group", "name"), CASES)
def test_no_step_waits_for_the_device(group, name):
    made = figures_of(DEFAULT, group)[name]
    if group == "launched":
        pytest.skip("the counts of workers are not seen")
    assert "error" not in made, made["error"]
    # Once an epoch, such as to send its order, is not in a step.
    assert (made["synchronisations"] > 0.1) == (name in WAITING), WAITING.get(name)


@pytest.mark.parametrize(
    ("group", "name"),
    # Those are the ones that differ by version: the launcher, and one process.
    [(group, name) for group, name in CASES if group in ("one", "launched")],
)
def test_the_oldest_pytorch_that_is_allowed_keeps_the_same_bounds(group, name):
    check_bounds(FLOOR, group, name)


def test_tests_for_gpus_fail_only_where_numbers_are_compared(bed, tmp_path):
    report = tmp_path / "report.xml"
    # Those of ddp end at once, where the sum of its self-test is wrong.
    options = ["-n", "0", "-m", "gpu", "-k", "not ddp", "-p", "no:cacheprovider"]
    files = [path for path in TESTS.rglob("test_*.py") if "mark.gpu" in path.read_text()]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *map(str, files)],
        env=bed.environment(num_gpus=2),
        cwd=TESTS.parent,
        capture_output=True,
        check=False,
    )
    cases = ElementTree.parse(report).getroot().findall(".//testcase")
    others = {
        case.get("name"): end.get("message")
        for case in cases
        for end in case
        if end.tag in ("failure", "error")
        if not (end.get("message") or "").startswith(("AssertionError", "assert "))
    }
    assert cases
    assert not others


def check_bounds(torch: str, group: str, name: str) -> None:
    made, bounds = figures_of(torch, group)[name], BOUNDS[group][name]
    assert "error" not in made, made["error"]
    assert made.keys() == bounds.keys(), "write them: make gpu-bounds"
    over = {
        key: f"{made[key]}, expected {most} at most"
        for key, most in bounds.items()
        if made[key] > most
    }
    assert not over
