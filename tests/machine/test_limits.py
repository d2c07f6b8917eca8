"""What a process may use of a machine: real control groups, and recorded ones of both versions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import psutil
import pytest

from tarmac.machine import read_limits

_GIB = 2**30


@pytest.fixture
def machine(tmp_path):
    """Return a function that writes what a kernel shows, and returns its root."""

    def make(own: str, files: dict[str, str]):
        for name, text in {"proc/self/cgroup": own, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


def _affinity() -> float:
    return float(len(psutil.Process().cpu_affinity()))


@pytest.mark.parametrize(
    ("own", "files"),
    [
        # Version 2, as a pod's process sees its own group: the limit is that of the group above.
        (
            "0::/kubepods/pod1/app\n",
            {
                "cgroup.controllers": "cpu memory",
                "kubepods/pod1/app/cpu.max": "max 100000",
                "kubepods/pod1/app/memory.max": "max",
                "kubepods/pod1/cpu.max": "50000 100000",
                "kubepods/pod1/memory.max": str(2 * _GIB),
                "kubepods/memory.max": str(64 * _GIB),
            },
        ),
        # Version 2 in a container, whose own group is at the root.
        (
            "0::/\n",
            {
                "cgroup.controllers": "cpu memory",
                "cpu.max": "50000 100000",
                "memory.max": str(2 * _GIB),
            },
        ),
        # Version 1 in a container of Docker, which shows the host's names.
        (
            "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n",
            {
                "cpu/cpu.cfs_quota_us": "50000",
                "cpu/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": str(2 * _GIB),
            },
        ),
        # Version 1 under Slurm: a step's group in a job's.
        (
            "4:memory:/slurm/job_7/step_0\n3:cpu,cpuacct:/slurm/job_7\n",
            {
                "cpu/slurm/job_7/cpu.cfs_quota_us": "50000",
                "cpu/slurm/job_7/cpu.cfs_period_us": "100000",
                "memory/slurm/job_7/step_0/memory.limit_in_bytes": "9223372036854771712",
                "memory/slurm/job_7/memory.limit_in_bytes": str(2 * _GIB),
            },
        ),
    ],
    ids=["v2-pod", "v2-container", "v1-container", "v1-slurm"],
)
def test_the_smallest_limit_on_the_way_up_counts(machine, own, files):
    root = machine(own, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    limits = read_limits(root)
    assert (limits.cpus, limits.memory_bytes) == (0.5, 2 * _GIB)


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("", {}),
        ("0::/\n", {"cgroup.controllers": "", "cpu.max": "max 100000", "memory.max": "max"}),
        (
            "4:memory:/\n3:cpu:/\n",
            {
                "cpu/cpu.cfs_quota_us": "-1",
                "cpu/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": "9223372036854771712",
            },
        ),
        # A name that leads out is another machine's, or nobody's.
        ("0::/../../outside\n", {"cgroup.controllers": ""}),
    ],
    ids=["none", "v2", "v1", "outside"],
)
def test_without_a_limit_the_affinity_is_what_there_is(machine, own, files):
    root = machine(own, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    limits = read_limits(root)
    assert (limits.cpus, limits.memory_bytes) == (_affinity(), None)


_SCRIPT = """
import sys
for group in sys.argv[1:]:
    open(f"{group}/cgroup.procs", "w").write("0")
from tarmac.jobs import read_machine
machine = read_machine()
print(machine.cpus, machine.memory)
"""


def test_a_machine_has_what_its_control_groups_allow(limited_group):
    groups = [
        limited_group("cpu", {"cpu.max": "120000 100000"}),
        limited_group("memory", {"memory.max": str(_GIB)}),
    ]
    if _affinity() < 2:
        pytest.skip("a quota of more than one core shows nothing on a machine of one")
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *map(str, groups)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert done.stdout == f"1.2 {_GIB}\n"


_DEVICE = """
import sys
for group in sys.argv[1:]:
    open(f"{group}/cgroup.procs", "w").write("0")
from tarmac.machine import find_devices, read_limits
(cpu,) = find_devices("cpu")
print(cpu.num_threads, cpu.memory_bytes, cpu.available_bytes <= cpu.memory_bytes)
"""


def test_the_cpu_as_a_device_is_what_control_groups_leave_of_it(limited_group):
    groups = [
        limited_group("cpu", {"cpu.max": "60000 100000"}),
        limited_group("memory", {"memory.max": str(_GIB)}),
    ]
    done = subprocess.run(
        [sys.executable, "-c", _DEVICE, *map(str, groups)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"1 {_GIB} True\n"


def test_shared_memory_is_told(machine):
    root = machine("", {"dev/shm/x": ""})
    assert read_limits(root).shm_bytes == shutil.disk_usage(root).total
    assert read_limits(root / "nowhere").shm_bytes is None
