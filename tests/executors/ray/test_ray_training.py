"""Trainings over two nodes of a real Ray, and a search by workers there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import tarmac
from tarmac.jobs import training_job
from tarmac.runs import Run
from tarmac.studies import Study

pytestmark = pytest.mark.ray

HEAD = {"num_cpus": 2, "num_gpus": 0}
NODES = ({"num_cpus": 2},)

FAULTY = f"{Path(__file__).parents[2] / 'training' / 'faulty.py'}:faulty"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Run:
    """Return the training of two replicas in one process, which nothing happens to."""
    output = tmp_path_factory.mktemp("undisturbed")
    return tarmac.train(FAULTY, devices="cpu:2", strategy="towers", output=output)


def assert_same(run: Run, undisturbed: Run) -> None:
    ours, theirs = load_file(run.model), load_file(undisturbed.model)
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], rtol=0, atol=1e-6), name


def on_ray(cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tarmac", *words, "--on", "ray"],
        env=os.environ | {"RAY_ADDRESS": cluster.address},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_rank_that_is_lost_on_one_node_is_made_good_from_the_checkpoint(
    runs, tmp_path, undisturbed
):
    job = training_job(FAULTY, ["--devices=cpu"], output=tmp_path / "trainings", nodes=2)
    faults = {"FAULT": "1:30:kill", "FAULT_ONCE": str(tmp_path / "once")}
    job = job.model_copy(update={"env": {**job.env, **faults}})
    progress = runs(job.model_dump_json(by_alias=True, exclude_unset=True))
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2), end.reason
    (path,) = (found.parent for found in (tmp_path / "trainings").glob("*/run.json"))
    run = Run.open(path)
    assert len(run.record.sessions) == 2
    # 23 steps make an epoch: the fault came in the second one.
    assert [row["epoch"] for row in run.history] == [1, 2, 3]
    assert_same(run, undisturbed)


def test_the_command_line_trains_over_two_nodes(cluster, tmp_path, undisturbed):
    words = ("train", FAULTY, "--nodes", "2", "--devices", "cpu", "--output", str(tmp_path))
    done = on_ray(cluster, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (found.parent for found in tmp_path.glob("*/run.json"))
    assert f"run {path}" in done.stdout
    assert_same(Run.open(path), undisturbed)


def test_workers_of_a_search_train_each_network_once(cluster, tmp_path):
    words = ["search", "digits-mlp", "--set", "hidden=8,16,32", "--method", "brute"]
    words += ["--epochs", "1", "--workers", "2", "--output", str(tmp_path)]
    done = on_ray(cluster, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by workers on ray, 2 at most" in done.stdout
    (path,) = tmp_path.glob("*/study.json")
    trials = Study.open(path.parent).trials
    assert sorted(int(row["params"]["hidden"]) for row in trials) == [8, 16, 32]
    assert {row["state"] for row in trials} == {"complete"}
