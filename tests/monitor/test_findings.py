"""What is wrong with GPUs."""

from pathlib import Path

import pytest
from monitor_values import NOW, gpu

from tarmac.checks import KernelNews, KernelWatch
from tarmac.machine import XidSeen
from tarmac.monitor.findings import Watchlist, findings_of_news


def told(*xids: XidSeen) -> tuple[KernelNews, ...]:
    """Return what the driver alone tells of, where nobody may read the log."""
    watch = KernelWatch(Path("/nowhere/kmsg"), journal=lambda since: "")
    try:
        return watch.new(xids)
    finally:
        watch.close()


@pytest.mark.parametrize(
    ("number", "level", "words"),
    [
        (94, "warning", "GPU 0: Xid 94, contained memory error"),
        (79, "failure", "GPU 0: Xid 79, the GPU has fallen off the bus"),
        (31, "note", "GPU 0: Xid 31, GPU memory page fault"),
        (9999, "warning", "GPU 0: Xid 9999, unknown to us"),
    ],
)
def test_an_error_of_the_driver_is_said_as_the_catalogue_has_it(number, level, words):
    (found,) = findings_of_news(told(XidSeen(number, "GPU-0", NOW)), [gpu()])
    assert (found.code, found.level, found.gpu_uuid, found.at) == ("xid", level, "GPU-0", NOW)
    assert found.text.startswith(words)


def test_an_error_of_a_gpu_that_no_longer_tells_is_the_machines():
    (found,) = findings_of_news(told(XidSeen(79, None, NOW)), [gpu()])
    assert found.gpu_uuid is None
    assert found.text.startswith("Xid 79")


def test_the_kernels_words_are_joined_to_the_gpu_by_its_place():
    news = KernelNews(
        "xid-contained",
        "Xid 94, contained memory error",
        "restart the program",
        NOW,
        94,
        "0000:9c:00",
        pid=7194,
        process="python",
    )
    (found,) = findings_of_news([news], [gpu(0), gpu(1, pci_address="0000:9c:00.0")])
    assert (found.code, found.gpu_uuid) == ("xid", "GPU-1")
    assert found.text == (
        "GPU 1: Xid 94, contained memory error, pid 7194 python (restart the program)"
    )


def test_what_happened_to_no_gpu_is_no_finding_of_one():
    kill = KernelNews("oom-killed", "the kernel ended a program", "", NOW, pid=7, process="sh")
    assert findings_of_news([kill], [gpu()]) == ()


def test_counters_that_grow_are_findings_and_what_they_were_before_is_none():
    counts = [(5, 2), (5, 2), (None, None), (7, 2), (7, 3)]
    watched = Watchlist()
    for uncorrected, remaps in counts:
        card = gpu(uncorrected_errors=uncorrected, row_remaps=remaps)
        watched = watched.advanced([card], (), NOW)
    assert [(one.code, one.level, one.text) for one in watched.findings] == [
        ("ecc", "failure", "GPU 0: 2 memory errors that ECC could not correct"),
        (
            "row-remap",
            "warning",
            "GPU 0: 1 memory rows replaced; it takes effect when the GPU is reset",
        ),
    ]


def test_what_was_found_stays_and_does_not_grow_for_ever():
    watched = Watchlist()
    for number in range(300):
        more = findings_of_news(told(XidSeen(94, f"GPU-{number}", NOW)), [])
        watched = watched.advanced([], more, NOW)
    assert len(watched.findings) == 200
    assert watched.findings[-1].gpu_uuid == "GPU-299"
