"""Trainings as tasks of a job on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

import tarmac
from tarmac.runs import Run

pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")


def test_a_retry_of_a_workload_goes_on_from_the_checkpoint_of_the_try_before(tmp_path):
    workload = f"{Path(__file__).with_name('faulty.py')}:faulty"
    (tmp_path / "notes").write_text("brought anew for each try")
    (tmp_path / "job.yaml").write_text(f"""
        name: x
        workload: {workload}
        env: {{FAULT: "0:30:kill", FAULT_ONCE: {tmp_path / "once"}, CUDA_VISIBLE_DEVICES: ""}}
        inputs: [{{from: notes, to: notes}}]
        retries: {{count: 1, backoff: 0s}}
        sweep: {{repeat: 2}}
        concurrency: 1
        """)
    done = tarmac.run(tmp_path / "job.yaml", output=tmp_path / "runs")
    tasks = [Run.open(path) for path in sorted(done.path.glob("tasks/*/*/runs/*"))]
    # The first task's first try was killed in its second epoch; the other is a training of its own.
    assert [len(training.record.sessions) for training in tasks] == [2, 1]
    assert all([row["epoch"] for row in run.history] == [1, 2, 3] for run in tasks)
