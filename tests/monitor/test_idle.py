"""GPUs that are held and do nothing."""

import pytest
from monitor_values import NOW, ago, gpu

from tarmac.machine import LiveProcess
from tarmac.monitor.idle import IdleClock, Standing, idle_of_work, is_quiet, standing_of

EMPTY = {"memory_used_bytes": 300 * 2**20}
RESTING = {"utilization_ratio": 0.0, "power_watts": 110.0}
DESKTOP = LiveProcess(5, 5, kind="graphics", memory_bytes=200 * 2**20)


@pytest.mark.parametrize(
    ("fields", "quiet"),
    [
        ({"utilization_ratio": 0.0, "power_watts": 110.0}, True),
        ({"utilization_ratio": 0.5, "power_watts": 110.0}, False),
        # Copies and encoders are no kernels.
        ({"utilization_ratio": 0.0, "power_watts": 400.0}, False),
        ({"utilization_ratio": 0.0, "power_watts": None}, True),
        ({"utilization_ratio": 0.0, "power_limit_watts": None}, True),
        # A MIG slice does not tell.
        ({"utilization_ratio": None}, None),
    ],
)
def test_a_gpu_is_quiet_without_kernels_and_with_the_watts_of_rest(fields, quiet):
    assert is_quiet(gpu(**fields)) is quiet


@pytest.mark.parametrize(
    ("card", "is_given", "state"),
    [
        pytest.param(gpu(0, 5), True, "busy", id="computes"),
        pytest.param(gpu(0, **RESTING, **EMPTY), False, "free", id="nobody's"),
        pytest.param(gpu(0, **RESTING), False, "held", id="somebody who is not seen"),
        pytest.param(gpu(0, **RESTING), True, "held", id="given, without any process"),
        pytest.param(gpu(0, 5, **RESTING), False, "held", id="somebody has much memory"),
        pytest.param(gpu(0, DESKTOP, **RESTING, **EMPTY), False, "free", id="a desktop"),
        pytest.param(gpu(0, utilization_ratio=None, **EMPTY), False, "free", id="a free slice"),
        pytest.param(gpu(0, 5, utilization_ratio=None), True, "busy", id="a held slice"),
        pytest.param(gpu(0, error="GPU is lost"), True, "bad", id="cannot be read"),
    ],
)
def test_a_gpu_stands_as_what_it_does_and_whose_it_is(card, is_given, state):
    assert standing_of(card, is_given=is_given, is_warming=False).state == state


def test_a_gpu_with_a_failure_is_bad():
    assert standing_of(gpu(), is_given=True, is_warming=False, is_bad=True).state == "bad"


def test_the_clock_runs_from_the_last_activity():
    clock = IdleClock()
    for seconds, state in ((30, "busy"), (20, "held"), (10, "held"), (0, "held")):
        clock = clock.advanced({"GPU-0": Standing(state)}, ago(seconds))
    assert clock.idle_s(NOW) == {"GPU-0": 20.0}


def test_the_clock_stands_while_all_that_holds_a_gpu_is_before_its_first_step():
    clock = IdleClock().advanced({"GPU-0": Standing("held", is_warming=True)}, ago(900))
    clock = clock.advanced({"GPU-0": Standing("held", is_warming=True)}, ago(300))
    clock = clock.advanced({"GPU-0": Standing("held")}, NOW)
    assert clock.idle_s(NOW) == {"GPU-0": 300.0}


def test_the_clock_begins_anew_once_a_gpu_was_busy_or_free():
    clock = IdleClock().advanced({"GPU-0": Standing("held")}, ago(900))
    clock = clock.advanced({"GPU-0": Standing("free")}, ago(600))
    assert clock.idle_s(NOW) == {}
    clock = clock.advanced({"GPU-0": Standing("held")}, ago(300))
    assert clock.idle_s(NOW) == {"GPU-0": 300.0}


def test_what_a_run_has_sampled_counts_from_before_the_first_look():
    clock = IdleClock().advanced({"GPU-0": Standing("held")}, NOW, {"GPU-0": ago(1200)})
    assert clock.idle_s(NOW) == {"GPU-0": 1200.0}


@pytest.mark.parametrize(
    ("gpus", "idle_s", "expected"),
    [
        ((), {}, None),
        (("a",), {"a": 5.0}, 5.0),
        (("a", "b"), {"a": 5.0, "b": 9.0}, 5.0),
        (("a", "b"), {"a": 5.0}, None),
    ],
)
def test_a_work_is_idle_for_as_long_as_all_its_gpus_are(gpus, idle_s, expected):
    assert idle_of_work(gpus, idle_s) == expected
