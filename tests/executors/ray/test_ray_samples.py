"""Files that HKube and Batch Shipyard publish, on a real Ray; in Docker's place is a stand-in.

The images are not to be had here: the stand-in prints what it is told to run, and Ray, the agent
and the command line of a container are real.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import ray

from published_samples import SAMPLES, staged
from ray_heads import start_head
from tarmac.formats import read_paths
from tarmac.jobs import Site, find_executor, plan_tasks, run_tasks
from tarmac.tasks.model import SystemEnvironment

pytestmark = pytest.mark.ray

DOCKER = """#!/bin/sh
case $1 in run) printf '%s\\n' "$@" ;; *) echo ok ;; esac
"""


@pytest.fixture(scope="module")
def address():
    """Start a node with a GPU that computes nothing, whose Docker is the stand-in."""
    programs = Path(tempfile.mkdtemp(prefix="tarmac-programs-"))
    (programs / "docker").write_text(DOCKER)
    (programs / "docker").chmod(0o755)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        cluster = start_head(num_cpus=8, num_gpus=1)
        yield cluster.address
        ray.shutdown()
        cluster.shutdown()
    shutil.rmtree(programs)


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
@pytest.mark.parametrize(
    "path",
    [
        "hkube/gpu-alg.json",
        "batch-shipyard/2.x/Chainer-GPU",
        "batch-shipyard/3.x/Chainer-GPU",
        "batch-shipyard/3.x/PyTorch-GPU",
    ],
)
def test_a_published_file_is_a_task_of_rays(path, address, tmp_path, progress):
    ((reading, _),) = read_paths([SAMPLES / path])
    options = {"ray": {"address": address, "containers": "docker"}}
    job = reading.jobs[0].model_copy(update={"options": options})
    # What they bring from the network and from HKube's own secrets is not to be had here either.
    tasks = [dataclasses.replace(task, inputs=(), secrets={}) for task in plan_tasks(job, tmp_path)]
    run = tmp_path / "run"
    (run / "tasks").mkdir(parents=True)
    kind = find_executor("ray")
    kind.refuse(tasks, 1)
    site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared", fake_gpus=1)
    with contextlib.closing(kind.open(site)) as executor:
        run_tasks(tasks, run, executor, progress)
    ends = progress.ends.values()
    assert {end.outcome for end in ends} == {"succeeded"}, [end.reason for end in ends]
    printed = next((run / "tasks").glob("*/stdout")).read_text().splitlines()
    assert tasks[0].environment.image in printed, printed


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
@pytest.mark.parametrize(
    ("sample", "printed"),
    [
        ("2.x/Chainer-GPU/config/jobs.json", "chainer -g 0\n"),
        ("3.x/Chainer-GPU/config/jobs.yaml", "chainer -g 0\n"),
        ("3.x/PyTorch-GPU/config/jobs.yaml", "pytorch\n"),
        ("3.x/BLAST-CPU/config/jobs-split.yaml", "split into 2\n"),
    ],
)
def test_batch_shipyards_samples_run_with_what_they_fetch(
    sample, printed, address, tmp_path, progress
):
    with staged() as stage:
        copy = stage.copy(sample, tmp_path)
        ((reading, _),) = read_paths([copy])
        changes = {"options": {"ray": {"address": address}}}
        planned = plan_tasks(reading.jobs[0].model_copy(update=changes), tmp_path)
        # What Docker would start in the image is started without it.
        tasks = [dataclasses.replace(task, environment=SystemEnvironment()) for task in planned]
        run = tmp_path / "run"
        (run / "tasks").mkdir(parents=True)
        site = Site(tasks=tasks, run=run, base=tmp_path, shared=run / "shared", fake_gpus=1)
        with contextlib.closing(find_executor("ray").open(site)) as executor:
            run_tasks(tasks, run, executor, progress)
        asked = stage.asked
    (end,) = progress.ends.values()
    assert end.outcome == "succeeded", end.reason
    (stdout,) = (run / "tasks").glob("*/stdout")
    assert stdout.read_text() == printed
    assert len(asked) == len(set(asked)) == copy.read_text().count("127.0.0.1")
