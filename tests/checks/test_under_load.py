"""GPUs are judged by what the driver says while probes measure, not by an idle moment."""

from __future__ import annotations

import json
import sys
import threading

import pynvml
import pytest
from recorded.evidence import done, gpu
from recorded.hardware import loaded

from forked import run_python
from tarmac.checks.rules.findings import find
from tarmac.checks.sampling import sampling
from tarmac.checks.under_load import UnderLoad, reasons_in_words, summarise
from tarmac.machine import Counters, LoadSample
from waiting import limit_s

# A program in a probe's place. It takes its turn, keeps the GPU busy until the driver was asked
# often enough, and writes down what a probe of PyTorch would.
_PROBE = """
import fcntl, json, os, pathlib, sys, time
busy = pathlib.Path(os.environ["NVML_STAND_IN_BUSY"])
# Busy for longer than it has its turn: whatever is read meanwhile is read of a busy GPU.
busy.touch()
with open(os.environ["TARMAC_PROBE_TURN"]) as turn:
    fcntl.flock(turn, fcntl.LOCK_EX)
    while busy.stat().st_size < int(os.environ["ANSWERS"]):
        time.sleep(0.02)
busy.unlink()
device = {"name": "cuda:0", "kind": "gpu", "chip": "NVIDIA H200", "flops": {"bf16": 780e12}}
build = {"cuda": "13.0", "architectures": ["sm_90"]}
result = {"stage": "done", "version": "2.13.0", "devices": [device], "build": build, "error": None}
pathlib.Path(sys.argv[2]).write_text(json.dumps(result))
"""


@pytest.fixture
def check(on_machine, tmp_path):
    """Return a function that checks a machine whose GPU is busy while the probe measures."""
    (tmp_path / "probe.py").write_text(_PROBE)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -I ] && exec "{sys.executable}" "$@"\n'
        f'exec "{sys.executable}" {tmp_path}/probe.py "$@"\n'
    )
    python.chmod(0o755)

    def run(machine: str, answers: int = 150) -> dict:
        busy = {"NVML_STAND_IN_BUSY": str(tmp_path / "busy"), "ANSWERS": str(answers)}
        words = ("check", "torch", "--json", "--python", python)
        finished = run_python("-m", "tarmac", *words, env=on_machine(machine, **busy))
        assert finished.stdout, finished.stderr
        return json.loads(finished.stdout)

    return run


def found(report: dict) -> dict[str, str]:
    # Container and CPUs are this machine's own.
    own = {"cgroup-cpu", "shm-small", "uvm-missing"}
    return {f["code"]: f["level"] for f in report["findings"] if f["code"] not in own}


def test_a_healthy_gpu_at_full_load_gets_no_warning(check):
    # At 80 of 87 °C, 5 % below its highest clock, held by its power limit all the time, and with a
    # link that is of the first generation when idle.
    report = check("loaded")
    assert found(report) == {"throttle-power": "note"}
    (load,) = report["under_load"]
    assert load["index"] == 0
    assert load["samples"] >= 12
    assert load["sm_clock_mhz"] == {"median": 1881, "lowest": 1881}
    assert load["reasons"] == {"sw_power_cap": 1.0}
    assert (load["temperature_c"], load["memory_temperature_c"]) == (80, 84)
    assert load["power_watts"] == 699.0
    assert load["pcie"] == {"generation": 5, "width": 16}
    assert load["held_back_s"]["thermal"] == 0.0
    assert load["grown"] == {"corrected_errors": 0, "uncorrected_errors": 0, "pcie_replays": 0}
    (verdict,) = (v for v in report["devices"] if v["name"] == "GPU 0")
    assert verdict["answer"] == "ok"
    assert verdict["text"] == "NVIDIA H200, 140 GiB, 31 °C, under load 699 W, 80 °C, 1,881 MHz"


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("hot-under-load", {"throttle-thermal": "warning"}),
        ("too-hot", {"too-hot": "warning", "throttle-power": "note"}),
        pytest.param(
            "no-margin",
            {"too-hot": "warning", "throttle-power": "note"},
            marks=pytest.mark.skipif(
                not hasattr(pynvml, "nvmlDeviceGetMarginTemperature"),
                reason="newer bindings ask for it: pip install -U nvidia-ml-py",
            ),
        ),
        ("brake-under-load", {"throttle-hardware": "failure"}),
        ("slow-link-under-load", {"pcie-generation": "warning", "throttle-power": "note"}),
        ("replaying", {"pcie-replays": "warning", "throttle-power": "note"}),
        ("failing-under-load", {"ecc": "failure", "throttle-power": "note"}),
    ],
)
def test_what_shows_only_under_load_is_found(check, machine, expected):
    assert found(check(machine)) == expected


def test_a_gpu_that_stays_idle_while_another_device_is_measured_is_not_judged(check):
    report = check("idle-beside", answers=10)
    assert report["under_load"] == []
    assert found(report) == {}


def samples(*reasons: str, **readings) -> list[LoadSample]:
    return [LoadSample(reasons=frozenset({reason} - {""}), **readings) for reason in reasons]


def test_readings_are_summed_up():
    before = Counters({"pcie_replays": 3, "corrected_errors": 0}, {"power": 1.0})
    after = Counters({"pcie_replays": 5}, {"power": 1.5, "thermal": 2.0})
    seen = [
        *samples("sw_power_cap", "", sm_clock_mhz=1700, power_watts=300.0, pcie_generation=4),
        *samples("sw_power_cap", sm_clock_mhz=1200, temperature_c=70, pcie_generation=5),
    ]
    assert summarise(3, seen, before, after, 2.0) == UnderLoad(
        index=3,
        samples=3,
        sm_clock_mhz={"median": 1700, "lowest": 1200},
        reasons={"sw_power_cap": 0.667},
        temperature_c=70,
        power_watts=300.0,
        pcie={"generation": 5},
        grown={"pcie_replays": 2},
        held_back_s={"power": 0.5},
        seconds=2.0,
    )


def test_reasons_are_told_in_words_most_frequent_first():
    load = UnderLoad(index=0, samples=50, reasons={"sw_thermal": 0.02, "sw_power_cap": 0.96})
    assert reasons_in_words(load) == "power limit 96 % of the time, heat 2 % of the time"
    assert reasons_in_words(UnderLoad(index=0, samples=50)) == ""


def test_a_fabric_that_is_not_ready_matters_only_while_cuda_waits_for_it():
    from tarmac.machine import Fabric

    waiting = gpu(fabric=Fabric(state="in progress"))
    assert [finding.code for finding in find(waiting)] == ["fabric-manager"]
    device = {"name": "cuda:0", "kind": "gpu"}
    computing = done("torch", waiting.inventory, devices=[device])
    assert find(computing) == ()


def test_a_lowered_limit_is_the_cause_and_its_effect_stands_back():
    facts = {"power_watts": {"limit": 400.0}, "default_power_watts": 700.0}
    evidence = loaded(facts, reasons={"sw_power_cap": 1.0}, power_watts=399.0)
    assert [finding.code for finding in find(evidence)] == ["power-limited"]


def test_a_power_limit_does_not_hide_that_a_chip_is_slow():
    device = {"name": "cuda:0", "kind": "gpu", "chip": "NVIDIA H200", "flops": {"bf16": 500e12}}
    load = loaded({"power_watts": {"limit": 700.0}}, reasons={"sw_power_cap": 0.9})
    evidence = done("torch", load.inventory, devices=[device])
    evidence = evidence.model_copy(update={"under_load": load.under_load})
    assert {finding.code for finding in find(evidence)} == {"slow-compute", "throttle-power"}


class EndingReader:
    """Reads a GPU, and every second time the probe's turn ends in the midst of that."""

    def __init__(self):
        self.has_turn, self.reads, self.is_enough = True, 0, threading.Event()

    def counters(self):
        return Counters({}, {})

    def sample(self):
        self.reads += 1
        self.has_turn = self.reads % 2 == 1
        if self.reads == 4:
            self.is_enough.set()
        return LoadSample(frozenset(), sm_clock_mhz=1980 if self.has_turn else 345)

    def is_measuring(self):
        has_turn, self.has_turn = self.has_turn, True
        return has_turn


def test_what_a_turn_has_ended_in_the_midst_of_is_not_judged():
    reader = EndingReader()
    with sampling({0: reader}, reader.is_measuring) as finish:
        assert reader.is_enough.wait(limit_s(30))
        (load,) = finish()
    assert load.sm_clock_mhz == {"median": 1980, "lowest": 1980}
