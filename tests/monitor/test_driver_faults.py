"""A monitor goes on whatever NVIDIA's driver does: on the stand-in for its library."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_MACHINES = Path(__file__).parents[1] / "checks" / "machines"

_START = """
import os, sys, time
from pathlib import Path
import tarmac.machine.live_reader as live_reader
from tarmac.monitor import Watcher, WatchOptions, from_json, to_json, render_once, Snapshot
def at(milliseconds):
    clock = Path(os.environ["NVML_STAND_IN_CLOCK"])
    new = clock.with_name("new")
    new.write_text(str(milliseconds))
    new.replace(clock)
def look(watcher):
    host = watcher.look()
    snapshot = Snapshot(host.at, (host,))
    assert from_json(to_json(snapshot)) == snapshot
    assert render_once(snapshot, 80, color=False)
    return host
def look_until(watcher, is_it):
    # A machine may be slow; what does not come within a minute does not come.
    until = time.monotonic() + 60
    while not is_it(host := look(watcher)):
        assert time.monotonic() < until, host
    return host
# However busy the machine is.
live_reader._START_S = 200.0
at(0)
options = WatchOptions(output=Path(sys.argv[1]))
"""


@pytest.fixture
def watch(on_machine, tmp_path):
    """Return a function that runs a program beside a driver, and returns what it prints."""

    def run(lines: str, program: str, **environment: str):
        machine = tmp_path / "machine.txt"
        machine.write_text(f"{lines}\nlike healthy\n")
        shutil.copy(_MACHINES / "healthy.txt", tmp_path)
        variables = {
            "NVML_STAND_IN": str(machine),
            "NVML_STAND_IN_CLOCK": str(tmp_path / "clock"),
        }
        done = subprocess.run(
            [sys.executable, "-c", _START + program, str(tmp_path)],
            env=on_machine("healthy", **{**variables, **environment}),
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.returncode == 0, done.stderr
        return ast.literal_eval(done.stdout)

    return run


_LOOK = "host = look(Watcher(options)); print([len(host.gpus), host.no_gpu_reason])"


def test_without_a_driver_the_machine_is_shown_with_the_reason(watch):
    num_gpus, reason = watch("", _LOOK, NVML_STAND_IN="/nowhere")
    assert num_gpus == 0
    assert reason


def test_a_driver_that_fails_to_start_is_the_reason(watch):
    num_gpus, reason = watch("init 18", _LOOK)
    assert num_gpus == 0
    assert "mismatch" in reason


def test_a_driver_that_hangs_as_it_starts_is_the_reason(watch):
    num_gpus, reason = watch("init_hang 1", f"live_reader._START_S = 0.1\n{_LOOK}")
    assert num_gpus == 0
    assert "has not answered" in reason


def test_a_gpu_that_is_lost_is_bad_and_comes_back(watch):
    program = """
reader = live_reader.open_live_reader(patience_s=200.0)
watcher, found = Watcher(options, gpus=reader), []
for now in (0, 1000, 2000):
    at(now)
    host = look(watcher)
    found.append([(gpu.error, host.gpu_states[gpu.uuid] == "bad") for gpu in host.gpus])
watcher.close()
print(found)
"""
    lines = "count 2\n1.name Other\n1.uuid GPU-1\n1.temperature 40\n1.lost 0 | 1000ms 15 | 2000ms 0"
    well, lost = (None, False), ("GPU is lost", True)
    assert watch(lines, program) == [[well, well], [well, lost], [well, well]]


def test_a_gpu_that_hangs_for_a_while_is_bad_and_comes_back(watch):
    program = """
reader = live_reader.open_live_reader(patience_s=0.1)
watcher, found = Watcher(options, gpus=reader), []
for now, is_hanging in ((0, False), (1000, True), (2000, False)):
    at(now)
    host = look_until(
        watcher,
        lambda host: (host.gpus[1].error is not None) == is_hanging and not host.gpus[0].error,
    )
    found.append(host.gpu_states["GPU-1"] == "bad")
watcher.close()
print(found)
"""
    lines = "count 2\n1.name Other\n1.uuid GPU-1\n1.temperature 40\n1.hang 0 | 1000ms 1 | 2000ms 0"
    assert watch(lines, program) == [False, True, False]
