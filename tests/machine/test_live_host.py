"""The host beside its GPUs: what this process may use of it, by recorded control groups."""

from __future__ import annotations

import pytest

from tarmac.machine import HostReader
from waiting import wait_until

_GIB = 2**30


@pytest.fixture
def host(tmp_path):
    """Return a function that writes what a kernel shows, and one that returns the host then."""
    now = [0.0]
    reader = HostReader(tmp_path, clock=lambda: now[0])

    def read(seconds: float, files: dict[str, str]):
        now[0] = seconds
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return reader.read()

    return read


def _stat(used_s: float, periods: int, throttled: int) -> str:
    return (
        f"usage_usec {used_s * 1e6:.0f}\nuser_usec 1\nnr_periods {periods}\n"
        f"nr_throttled {throttled}\nthrottled_usec 9\n"
    )


def test_a_quota_of_version_2_is_what_may_be_used(host):
    group = "sys/fs/cgroup/pod"
    files = {
        "proc/self/cgroup": "0::/pod\n",
        "sys/fs/cgroup/cgroup.controllers": "cpu memory",
        f"{group}/cpu.max": "50000 100000",
        f"{group}/cpu.stat": _stat(10, 100, 5),
        f"{group}/memory.max": str(_GIB),
        f"{group}/memory.current": str(_GIB // 2),
        f"{group}/memory.stat": f"anon 5\ninactive_file {_GIB // 4}\n",
    }
    first = host(0, files)
    assert (first.cpu_count, first.cpu_ratio, first.throttled_ratio) == (0.5, None, None)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (_GIB // 4, _GIB)
    # Of five seconds of half a core, one was used; of 50 periods, 20 were too short.
    second = host(5, {f"{group}/cpu.stat": _stat(11, 150, 25)})
    assert (second.cpu_ratio, second.throttled_ratio) == (0.4, 0.4)
    # Nothing ran.
    third = host(6, {})
    assert (third.cpu_ratio, third.throttled_ratio) == (0.0, 0.0)


def test_a_quota_of_version_1_is_what_may_be_used(host):
    cpu, memory = "sys/fs/cgroup/cpu/pod", "sys/fs/cgroup/memory/pod"
    usage = "sys/fs/cgroup/cpuacct/pod/cpuacct.usage"
    files = {
        "proc/self/cgroup": "3:memory:/pod\n2:cpuacct:/pod\n1:cpu:/pod\n",
        f"{cpu}/cpu.cfs_quota_us": "50000",
        f"{cpu}/cpu.cfs_period_us": "100000",
        f"{cpu}/cpu.stat": "nr_periods 100\nnr_throttled 5\nthrottled_time 9\n",
        usage: "10000000000",
        f"{memory}/memory.limit_in_bytes": str(_GIB),
        f"{memory}/memory.usage_in_bytes": str(_GIB // 2),
        f"{memory}/memory.stat": f"cache 5\ntotal_inactive_file {_GIB // 4}\n",
    }
    first = host(0, files)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (_GIB // 4, _GIB)
    stat = {f"{cpu}/cpu.stat": "nr_periods 150\nnr_throttled 30\n"}
    second = host(4, {usage: "11000000000", **stat})
    assert (second.cpu_count, second.cpu_ratio, second.throttled_ratio) == (0.5, 0.5, 0.5)


def test_without_limits_the_machine_is_what_may_be_used(host):
    first = host(0, {"proc/self/cgroup": "0::/\n"})
    assert first.cpu_count is not None
    assert first.cpu_count >= 1
    assert first.throttled_ratio is None
    assert first.memory_total_bytes is not None
    assert 0 < (first.memory_used_bytes or 0) < first.memory_total_bytes
    # Until the machine's clock has counted.
    counted = wait_until(
        lambda: [seen for seen in [host(0, {})] if seen.cpu_ratio is not None], "a ratio"
    )
    assert 0 <= counted[0].cpu_ratio <= 1


def test_a_quota_that_comes_or_goes_has_no_ratio_at_first(host):
    group = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "0::/\n",
        f"{group}/cgroup.controllers": "cpu",
        f"{group}/cpu.max": "50000 100000",
        f"{group}/cpu.stat": _stat(10, 100, 5),
    }
    host(0, files)
    changed = host(5, {f"{group}/cpu.max": "max 100000"})
    assert (changed.cpu_ratio, changed.throttled_ratio) == (None, None)


def test_half_a_file_is_no_number(host):
    group = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "0::/\n",
        f"{group}/cgroup.controllers": "cpu memory",
        f"{group}/cpu.max": "50000 100000",
        f"{group}/cpu.stat": "usage_us",
        f"{group}/memory.max": str(_GIB),
        f"{group}/memory.current": "",
    }
    host(0, files)
    found = host(5, {})
    assert found.throttled_ratio is None
    assert (found.memory_total_bytes or 0) > 0
