"""The example of HKube's pipelines: the sweep that its system test makes of the GPU example."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("bson", reason="needs pip install 'tarmac-gpu[hkube]'")

from forked import forked_interpreter, run_python

EXAMPLE = Path(__file__).parents[2] / "examples" / "hkube"


@pytest.fixture
def tarmac(tmp_path_factory):
    """Return a function that runs the command `tarmac`, which the algorithms start as well."""
    programs = tmp_path_factory.mktemp("programs")
    (programs / "tarmac").write_text(f'#!/bin/sh\nexec {forked_interpreter()} -m tarmac "$@"\n')
    (programs / "tarmac").chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}

    def run(*words, cwd):
        return run_python("-m", "tarmac", *words, cwd=cwd, env=environment)

    return run


def test_the_sweep_is_known_before_it_runs(tarmac, tmp_path):
    done = tarmac("run", EXAMPLE / "sweep.json", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(f"train[{number}]" in done.stdout for number in range(1, 5))
    assert not [*tmp_path.iterdir()]


@pytest.mark.mnist
@pytest.mark.usefixtures("mnist")
def test_the_sweep_of_the_gpu_example_trains_better_on_more_samples(tarmac, tmp_path):
    arguments = ("--result", "result.json", "--output", "runs")
    done = tarmac("run", EXAMPLE / "sweep.json", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "result.json").read_text())
    assert [one["nodeName"] for one in results] == ["train"] * 4
    assert [one["batchIndex"] for one in results] == [1, 2, 3, 4]
    found = [one["result"] for one in results]
    assert found[0]["acc"] > 0.5
    assert found[3]["acc"] > max(found[0]["acc"], 0.75)
    assert len({one["output"] for one in found}) == 4
