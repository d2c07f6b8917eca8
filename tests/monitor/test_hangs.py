"""Work that has stopped without ending."""

import pytest
from monitor_values import gpu

from tarmac.monitor.hangs import Rank, find_hang

SPINNING = {"utilization_ratio": 1.0, "power_watts": 150.0}
COMPUTING = {"utilization_ratio": 1.0, "power_watts": 650.0}
STILL = {"utilization_ratio": 0.0, "power_watts": 90.0}


@pytest.mark.parametrize(
    ("quiet_s", "step_s", "hangs"),
    [
        (299.0, 60.0, False),
        (301.0, 60.0, True),
        # Five epochs of a second are no measure.
        (30.0, 1.0, False),
        (61.0, 1.0, True),
        (None, 60.0, False),
        (9000.0, None, False),
    ],
)
def test_a_training_hangs_after_five_times_its_median(quiet_s, step_s, hangs):
    assert (find_hang(quiet_s, step_s, [Rank(7, gpu=gpu(**SPINNING))]) is not None) is hangs


@pytest.mark.parametrize(
    ("rank", "hangs"),
    [
        pytest.param(Rank(7, gpu=gpu(**COMPUTING)), False, id="its GPU computes"),
        pytest.param(Rank(7, gpu=gpu(**SPINNING)), True, id="its GPU only waits"),
        pytest.param(Rank(7, cpu_ratio=1.7), False, id="it computes on the CPU"),
        pytest.param(Rank(7, cpu_ratio=0.0), True, id="it does nothing on the CPU"),
        pytest.param(Rank(7), True, id="nothing is known of it"),
    ],
)
def test_what_computes_does_not_hang(rank, hangs):
    assert (find_hang(1000.0, 60.0, [rank]) is not None) is hangs


def test_the_rank_that_the_others_wait_for_is_named():
    ranks = [
        Rank(9),
        Rank(10, 0, gpu(0, **SPINNING)),
        Rank(11, 1, gpu(1, **STILL), tells_stack=True),
        Rank(12, 2, gpu(2, **SPINNING)),
    ]
    found = find_hang(1200.0, 60.0, ranks)
    assert found is not None
    assert found.text == (
        "no sign of life for 20 min, usually one every 60 s; "
        "rank 1, process 11, GPU 1 is not where the others wait"
    )
    assert found.command == "kill -USR2 11"


def test_a_training_that_is_suspended_is_said_at_once():
    found = find_hang(1.0, None, [Rank(10, 0), Rank(11, 1, is_stopped=True)])
    assert found is not None
    assert (found.text, found.command) == (
        "rank 1, process 11 is suspended by a signal",
        "kill -CONT 11",
    )


def test_a_run_without_known_processes_is_quiet_and_offers_nothing():
    found = find_hang(1000.0, 60.0, [])
    assert found is not None
    assert found.command == ""


def test_a_signal_that_would_end_a_process_is_not_offered():
    found = find_hang(1000.0, 60.0, [Rank(7, 0, tells_stack=False)])
    assert found is not None
    assert found.command == ""
