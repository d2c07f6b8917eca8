"""What engines call a run's jobs: the job's own name first, and never one of another run's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.executors.kubernetes import runners as kubernetes_runners
from tarmac.executors.queueing.chunks import chunk_name, job_label, run_code
from tarmac.executors.ray import runners as ray_runners
from tarmac.executors.runners import RunnerJob
from tarmac.executors.slurm import runners as slurm_runners


def runner(run):
    return RunnerJob(
        run=run,
        number=2,
        num_tasks=1,
        command=("python",),
        variables={},
        options={},
        warned=run / "warned",
    )


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("sweep-20261122-101500-ab12", "sweep"),
        ("Bert Large_v2-20261122-101500-ab12", "bert-large-v2"),
        ("8-gpus-20261122-101500-ab12", "tarmac-8-gpus"),
        ("größe-20261122-101500-ab12", "gr-e"),
        ("run", "run"),
        ("日本-20261122-101500-ab12", "tarmac"),
    ],
)
def test_jobs_of_engines_begin_with_the_jobs_name(tmp_path, name, label):
    run = tmp_path / name
    code = run_code(run)
    assert job_label(run) == label
    assert chunk_name(run, 7) == f"{label}-{code}-0007"
    assert f"--job-name={label}-{code}-runner-2" in slurm_runners._script(runner(run)).text
    submission = ray_runners._submission(runner(run))
    assert submission.name == f"{label}-{code}-2"
    assert submission.metadata["tarmac_job"] == label


@given(st.text(max_size=80))
def test_a_name_of_any_text_is_one_that_engines_take(name):
    run = Path("/runs", name.replace("/", "-").replace("\0", "-") or "x")
    # A Service is called as its Job: a DNS label that begins with a letter (RFC 1035), and a pod's
    # name has the Job's, -nodes-0 and its index.
    found = chunk_name(run, 9999)
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", found)
    assert len(f"{found}-nodes-0-999") <= 63


def test_runners_of_runs_that_began_before_are_found_by_their_former_name(tmp_path):
    former = f"tarmac-{run_code(tmp_path)}-runner-1"
    assert former in slurm_runners._names(tmp_path, 1)
    assert former in kubernetes_runners._names(tmp_path, 1)
