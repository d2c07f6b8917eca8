"""How many threads a training takes on the CPU, and that a resumed run keeps its number."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import tarmac
from tarmac.machine import find_devices
from tarmac.training import Silent, find_strategy
from tarmac.training.planning.threads import choose_threads
from tarmac.workloads import find_workload

FOUR = dataclasses.replace(find_devices("cpu")[0], num_threads=4)
ONE = dataclasses.replace(FOUR, num_threads=1)


@pytest.mark.parametrize(
    ("device", "strategy", "step_flops", "environ", "threads"),
    [
        (FOUR, "single", 5e6, {}, 1),
        (FOUR, "single", 40e6, {}, 1),
        (FOUR, "single", 41e6, {}, 4),
        (ONE, "single", 1e12, {}, 1),
        (FOUR, "ddp", 5e6, {}, None),
        (FOUR, "towers", 5e6, {}, None),
        (dataclasses.replace(FOUR, type="cuda"), "single", 5e6, {}, None),
        (FOUR, "single", 5e6, {"OMP_NUM_THREADS": ""}, 1),
    ],
)
def test_threads_follow_the_size_of_a_step_and_the_cores(
    device, strategy, step_flops, environ, threads
):
    chosen, why = choose_threads(None, device, find_strategy(strategy), int(step_flops), environ)
    assert chosen == threads
    assert ("are too few for two threads" in why) == (chosen == 1 and device is FOUR)


def test_the_number_of_threads_that_a_user_names_comes_first():
    assert choose_threads(3, FOUR, find_strategy("single"), 5_000_000, {})[0] == 3
    assert choose_threads(0, FOUR, find_strategy("single"), 5_000_000, {})[0] is None
    asked = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    chosen, why = choose_threads(None, FOUR, find_strategy("single"), 10**12, asked)
    assert chosen == torch.get_num_threads()
    assert "OMP_NUM_THREADS" in why


class Counting(Silent):
    """Notes the threads in which each epoch ended."""

    def __init__(self):
        self.threads = []

    def epoch_done(self, row):
        self.threads.append(torch.get_num_threads())


def test_a_resumed_run_keeps_its_number_of_threads_and_gives_the_callers_back(tmp_path):
    before = torch.get_num_threads()
    seen = Counting()
    options = {"epochs": 2, "device": "cpu", "train_size": 64, "threads": 3, "output": tmp_path}
    stops = iter([False, False, True])
    run = tarmac.train(
        find_workload("digits-mlp"),
        reporter=seen,
        interrupted=lambda: next(stops, True),
        **options,
    )
    assert run.record.status == "interrupted"
    assert run.record.configuration["threads"] == 3
    tarmac.resume(run.path, workload=find_workload("digits-mlp"), reporter=seen)
    assert set(seen.threads) == {3}
    assert torch.get_num_threads() == before
