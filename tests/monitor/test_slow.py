"""Why work is slow."""

import pytest
from monitor_values import gpu

from tarmac.monitor.slow import GpuPast, Neighbour, reasons_of, throttled_shares


def texts(*arguments, **options):
    return [reason.text for reason in reasons_of(*arguments, **options)]


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ({}, []),
        ({"data": 0.04, "ranks": 0.049}, []),
        ({"data": 0.05}, ["waits for data 5% of the time"]),
        (
            {"data": 0.23, "ranks": 0.4},
            ["waits for other ranks 40% of the time", "waits for data 23% of the time"],
        ),
    ],
)
def test_waits_are_said_from_five_percent_on_the_worst_first(waits, expected):
    assert texts(waits, []) == expected


def test_the_slowest_rank_is_named_where_it_is_known():
    assert texts({"ranks": 0.3}, [], slowest_rank="rank 3 on node7") == [
        "waits for rank 3 on node7 30% of the time"
    ]


@pytest.mark.parametrize(("share", "is_much"), [(0.19, False), (0.2, True)])
def test_from_a_fifth_on_it_is_what_is_wrong(share, is_much):
    assert reasons_of({"data": share}, [])[0].is_much is is_much


@pytest.mark.parametrize(
    ("fields", "shares", "expected"),
    [
        ({}, {}, []),
        (
            {"temperature_c": 88.0},
            {"thermal": 0.3},
            ["GPU 0 is slowed by heat 30% of the time (88 °C)"],
        ),
        (
            {"throttle_reasons": ("hw_thermal",), "temperature_c": None},
            {},
            ["GPU 0 is slowed by heat now"],
        ),
        (
            {"throttle_reasons": ("hw_power_brake",)},
            {},
            ["GPU 0 is slowed by the machine's power brake"],
        ),
        # Under full load most cards are at their limit now and then.
        ({}, {"power": 0.15}, []),
        ({}, {"power": 0.5}, ["GPU 0 is at its power limit of 700 W 50% of the time"]),
        (
            {"sm_clock_mhz": 1000, "max_sm_clock_mhz": 1980},
            {},
            ["GPU 0 runs at 1000 of 1980 MHz"],
        ),
        ({"sm_clock_mhz": 1900, "max_sm_clock_mhz": 1980}, {}, []),
        (
            {"sm_clock_mhz": 300, "max_sm_clock_mhz": 1980, "utilization_ratio": 0.0},
            {},
            [],
        ),
        (
            {"pcie_width": 4, "max_pcie_width": 16},
            {},
            ["GPU 0 is linked by 4 of 16 PCIe lanes"],
        ),
        (
            {"pcie_generation": 3, "max_pcie_generation": 5},
            {},
            ["GPU 0 is linked by PCIe generation 3 of 5"],
        ),
        # An idle link goes slow to save power.
        ({"pcie_generation": 1, "max_pcie_generation": 5, "utilization_ratio": 0.0}, {}, []),
        (
            {"pcie_generation": 4, "pcie_width": 16, "pcie_received_bytes_per_s": 28e9},
            {},
            ["GPU 0 copies 28 GB/s, 89% of what its link carries"],
        ),
    ],
)
def test_what_holds_a_gpu_back_is_said(fields, shares, expected):
    assert texts({}, [gpu(**fields)], throttled={"GPU-0": shares}) == expected


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [
        ((80, 88), "GPU 1 is slowed by heat 40% of the time (88 °C), and 1 other GPU"),
        ((80, 88, 84), "GPU 1 is slowed by heat 40% of the time (88 °C), and 2 other GPUs"),
    ],
)
def test_gpus_that_are_held_back_alike_are_one_line_of_the_worst(degrees, expected):
    cards = [gpu(n, temperature_c=float(at)) for n, at in enumerate(degrees)]
    shares = {card.uuid: {"thermal": 0.4 if card.index == 1 else 0.1} for card in cards}
    assert texts({}, cards, throttled=shares) == [expected]


def test_the_quota_neighbours_and_errors_are_reasons():
    found = reasons_of(
        {},
        [gpu()],
        quota_ratio=0.3,
        neighbours=[Neighbour(0, 0.4, "bob's python (77)"), Neighbour(0, 0.01, "a monitor")],
        xids=["GPU 0: Xid 94, contained memory error"],
    )
    assert [(reason.text, reason.command) for reason in found] == [
        ("GPU 0: Xid 94, contained memory error since it began", "tarmac check"),
        ("bob's python (77) takes 40% of GPU 0", ""),
        ("its quota of CPU ran out in 30% of the last periods", ""),
    ]


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        (None, {}),
        (GpuPast(10.0, {"power": 100.0}), {"power": 0.5}),
        # A driver that was loaded anew counts from zero.
        (GpuPast(10.0, {"power": 900.0}), {"power": 0.0}),
        (GpuPast(70.0, {"power": 100.0}), {}),
        (GpuPast(10.0, {}), {}),
    ],
)
def test_the_share_of_lowered_clocks_is_of_the_time_since_then(past, expected):
    now = gpu(throttled_s={"power": 130.0})
    assert throttled_shares(now, past, 70.0) == expected
