"""The host side of every training on a GPU, over a stand-in for CUDA's libraries.

Kernels compute nothing there: this shows what is raised, asked of the GPU and left behind. What the
numbers are is for the tests marked `gpu`, on one.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
from bed import DEFAULT, VERSIONS, NoBedError, find_bed
from bounds import GROUPS, measure, read_bounds

pytestmark = [pytest.mark.cuda_stand_in, pytest.mark.timeout(700)]

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
    assert bool(made["synchronisations"]) == (name in WAITING), WAITING.get(name)


@pytest.mark.nightly
@pytest.mark.parametrize(("group", "name"), CASES)
def test_the_oldest_pytorch_that_is_allowed_keeps_the_same_bounds(group, name):
    check_bounds(FLOOR, group, name)


def test_workers_of_ddp_start_with_the_oldest_pytorch_that_is_allowed():
    check_bounds(FLOOR, "launched", "workers of ddp")


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
