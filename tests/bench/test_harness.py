"""Results say what they were measured on, and tell nobody whose machine it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import _harness

pytest.importorskip("optuna", reason="needs pip install 'tarmac-gpu[search]'")

BENCH = Path(_harness.__file__).parent


def test_figures_of_a_gpu_are_named_by_it_and_tell_its_driver(on_machine):
    program = (
        "import json, _harness; print(json.dumps([_harness.machine_facts(),"
        " _harness.results_files('mnist-mlp', {}, 'text', gpu=True),"
        " list(_harness.results_files('parsing', {}, 'text'))]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=on_machine("healthy", PYTHONPATH=str(BENCH)),
        capture_output=True,
        text=True,
        check=True,
    )
    facts, files, of_the_cpu = json.loads(done.stdout)
    assert facts["gpu"] == "NVIDIA H200"
    assert facts["gpu_memory"] == 140.4
    assert (facts["driver"], facts["driver_cuda"]) == ("580.126.20", "13.0")
    assert facts["gpu_clocks"] == {"sm": 345, "sm_max": 1980, "memory": 3201, "memory_max": 3201}
    assert facts["torch"]
    assert set(files) == {"mnist-mlp-nvidia-h200.json", "mnist-mlp-nvidia-h200.md"}
    assert "GPU-" not in done.stdout
    assert not any("h200" in name for name in of_the_cpu)


def test_without_a_gpu_the_facts_name_none():
    if "gpu" in _harness.gpu_facts():
        pytest.skip("there is a GPU here; hide it: run where there is none")
    assert _harness.machine_slug(gpu=True) == _harness.machine_slug()


def test_programs_call_tarmac_by_the_interpreter_that_runs_them():
    done = subprocess.run(
        [*_harness.TARMAC, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("tarmac ")
    for path in BENCH.glob("*.py"):
        assert '.parent / "tarmac"' not in path.read_text(), path.name
