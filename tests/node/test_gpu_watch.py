"""A GPU that a program was given and did not use is noted, wherever the program runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from forked import run_python
from tarmac.node.gpu_watch import UnusedGpus
from tarmac.node.gpus import Gpu

_HEALTHY = Path(__file__).parents[1] / "checks" / "machines" / "healthy.txt"
_GPU = "GPU-7d3c132a-675f-077e-3bf7-99d79213d062"
_NOTE = (
    f"no process was seen to compute on {_GPU}, which the task has: does its framework see GPUs?"
)

# Ends once it has been looked at often enough: each look adds a byte to the file.
_STAYS = """
import os, sys
before = os.stat(sys.argv[1]).st_size
while os.stat(sys.argv[1]).st_size < before + 9:
    pass
"""


@pytest.fixture
def machine(tmp_path):
    """Return a function that writes the file of a machine in which some lines differ."""

    def write(lines: str) -> str:
        path = tmp_path / "machine.txt"
        path.write_text(f"{lines}\n{_HEALTHY.read_text()}")
        return str(path)

    return write


def use(used_bytes: int, *pids: int) -> list[Gpu]:
    return [Gpu(_GPU, 80 * 2**30, used_bytes, pids)]


@pytest.mark.parametrize(
    ("first", "then", "is_unused"),
    [
        (use(0), [use(0)] * 9, True),
        (use(0), [use(0)] * 4, False),
        # What was there before is others'; they may let go of it.
        (use(2**36, 7), [use(2**36, 7)] * 9, True),
        (use(2**36, 7), [use(0)] * 9, True),
        (use(0), [*[use(0)] * 8, use(2**29)], False),
        (use(0), [*[use(0)] * 8, use(0, 7)], False),
        (use(2**36, 7), [*[use(2**36, 7)] * 8, use(2**36, 8)], False),
        (use(0), [*[use(0)] * 8, [use(0)[0]._replace(utilization=95)]], False),
        # Once is enough.
        (use(0), [use(2**29, 7), *[use(0)] * 9], False),
        # One that does not answer may have been used.
        (use(0), [[], *[use(0)] * 9], False),
        ([], [use(0)] * 9, False),
    ],
)
def test_a_gpu_counts_as_unused_only_where_that_was_seen(first, then, is_unused):
    unused = UnusedGpus(first)
    for uses in then:
        unused.look(uses)
    assert unused.names() == ([_GPU] if is_unused else [])


_NAMES = """
import sys
from tarmac.node import GpuWatch
watch = GpuWatch(sys.argv[1:])
print(*watch.close(""))
"""


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ("", ["FAKE-0"]),
        ("", []),
        ("init 999", [_GPU]),
        ("0.lost 15", [_GPU]),
        ("init_hang 1", [_GPU]),
        ("0.hang 1", [_GPU]),
    ],
    ids=["pretended", "none", "no driver", "lost", "start hangs", "hangs"],
)
def test_what_was_not_seen_is_not_told_and_keeps_nothing_waiting(on_machine, machine, lines, names):
    env = on_machine("healthy", NVML_STAND_IN=machine(lines))
    done = run_python("-c", _NAMES, *names, env=env, timeout=60)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


@pytest.fixture
def asked(tmp_path) -> Path:
    path = tmp_path / "asked"
    path.touch()
    return path


@pytest.mark.parametrize("share", ["1", "0.5"])
def test_a_task_of_this_machine_that_used_no_gpu_says_so(
    tmp_path, on_machine, machine, asked, share
):
    (tmp_path / "stays.py").write_text(_STAYS if share == "1" else "")
    task = {"command": [sys.executable, str(tmp_path / "stays.py"), str(asked)]}
    job = {"name": "x", **task, "resources": {"gpus": float(share)}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    env = on_machine(
        "healthy", NVML_STAND_IN=machine("0.used 0 | busy 0"), NVML_STAND_IN_BUSY=str(asked)
    )
    done = run_python("-m", "tarmac", "run", "job.json", "--json", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)
    notes = run["tasks"][0]["notes"]
    assert notes == ([f"{_NOTE} (tarmac check)"] if share == "1" else [])


def test_an_attempt_on_a_node_that_used_no_gpu_says_so(run, tmp_path, stand_in, machine, asked):
    (tmp_path / "stays.py").write_text(_STAYS)
    element = run.element(sys.executable, str(tmp_path / "stays.py"), str(asked), gpus=1)
    variables = {
        "LD_LIBRARY_PATH": str(stand_in),
        "NVML_STAND_IN": machine("0.used 0 | busy 0"),
        "NVML_STAND_IN_BUSY": str(asked),
        "SLURM_JOB_ID": "80",
        "SLURMD_NODENAME": "n7",
        "SLURM_JOB_GPUS": "0",
    }
    assert run.run(element, **variables) == (0, "")
    assert run.record(element).notes == [f"{_NOTE.replace(',', ' on n7,', 1)} (tarmac check)"]
