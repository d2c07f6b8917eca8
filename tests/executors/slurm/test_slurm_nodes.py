"""Trainings and other programs on the two nodes of a real Slurm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tarmac import train
from tarmac.jobs import Requeued, training_job
from tarmac.runs import Run

pytestmark = pytest.mark.slurm

# A job that is requeued begins again once its credential has expired.
SETTINGS = ("MinJobAge=2", "AuthInfo=cred_expire=5")
CLUSTER = {"cpus": 8}

FAULTY = f"{Path(__file__).parents[2] / 'training' / 'faulty.py'}:faulty"

ON_TWO = ("--on", "slurm", "--nodes", "2", "--devices", "cpu")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Run:
    """Return the training of two replicas in one process, which nothing happens to."""
    output = tmp_path_factory.mktemp("undisturbed")
    return train(FAULTY, devices="cpu:2", strategy="towers", output=output)


def only_training(output: Path) -> Run:
    (path,) = (found.parent for found in output.glob("*/run.json"))
    return Run.open(path)


def assert_same(run: Run, undisturbed: Run) -> None:
    ours, theirs = load_file(run.model), load_file(undisturbed.model)
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], rtol=0, atol=1e-6), name
    for name in ("test_accuracy", "test_loss"):
        assert run.metrics[name] == pytest.approx(undisturbed.metrics[name], abs=1e-6)


def test_a_training_on_two_nodes_equals_that_of_two_ranks_on_one(on_cluster, tmp_path, undisturbed):
    done = subprocess.run(
        [sys.executable, "-m", "tarmac", "train", FAULTY, *ON_TWO, "--output", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run = only_training(tmp_path)
    assert f"run {run.path}" in done.stdout
    assert_same(run, undisturbed)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("kill", "n2 (node 1): exit code 137"),
        ("kill_agent", "n2 (node 1) was lost: its agent is gone"),
        ("hang", "n1 (node 0): exit code 69: rank 1 has not finished a step for "),
    ],
    ids=["a rank", "an agent", "a rank that hangs"],
)
def test_after_a_loss_on_one_node_the_next_attempt_goes_on_from_the_checkpoint(
    runs, tmp_path, undisturbed, fault, reason
):
    options = ["--devices=cpu", "--hang-timeout=15"]
    job = training_job(FAULTY, options, output=tmp_path / "trainings", nodes=2)
    faults = {"FAULT": f"1:30:{fault}", "FAULT_ONCE": str(tmp_path / "once")}
    job = job.model_copy(update={"env": {**job.env, **faults}})
    progress = runs(job.model_dump_json(by_alias=True, exclude_unset=True))
    (end,) = progress.ends.values()
    assert (end.outcome, end.attempts) == ("succeeded", 2)
    ((_, said),) = progress.retries
    assert said.startswith(reason)
    run = only_training(tmp_path / "trainings")
    assert len(run.record.sessions) == 2
    # 23 steps make an epoch: the fault came in the second one.
    assert [row["epoch"] for row in run.history] == [1, 2, 3]
    assert_same(run, undisturbed)


@pytest.mark.parametrize("fault", ["requeue", "fail_node"])
def test_a_training_that_slurm_begins_again_goes_on_from_the_checkpoint_on_both_nodes(
    runs, cluster, tmp_path, undisturbed, fault
):
    job = training_job(FAULTY, ["--devices=cpu"], output=tmp_path / "trainings", nodes=2)
    faults = {"FAULT": f"1:30:{fault}", "FAULT_ONCE": str(tmp_path / "once")}
    job = job.model_copy(update={"env": {**job.env, **faults}})
    failed = []

    def mend(progress):
        if fault == "fail_node" and not failed and (tmp_path / "once").exists():
            failed.append("n2")
            cluster.end_daemon("n2", kill=True)
            cluster.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
            cluster.start_daemon("n2")
            cluster.run("scontrol", "update", "NodeName=n2", "State=RESUME")

    progress = runs(job.model_dump_json(by_alias=True, exclude_unset=True), mend)
    (end,) = progress.ends.values()
    assert end.outcome == "succeeded", end.reason
    assert len(progress.of(Requeued)) + len(progress.retries) == 1
    run = only_training(tmp_path / "trainings")
    assert len(run.record.sessions) == 2
    assert [row["epoch"] for row in run.history] == [1, 2, 3]
    assert_same(run, undisturbed)


def test_a_workload_of_a_job_file_goes_on_from_its_checkpoint_after_a_requeue(runs, tmp_path):
    for name in ("scratch", "given"):
        (tmp_path / name).mkdir()
    (tmp_path / "given" / "notes").write_text("brought anew for each attempt")
    progress = runs(f"""
        name: x
        workload: {FAULTY}
        env: {{FAULT: "0:30:requeue", FAULT_ONCE: {tmp_path / "once"}, CUDA_VISIBLE_DEVICES: ""}}
        inputs: [{{from: given, to: .}}]
        outputs: [{{path: "runs/*/model.safetensors", root: runs, to: kept}}]
        options: {{slurm: {{work: {tmp_path / "scratch"}}}}}
        """)
    end = progress.ends["x"]
    assert (end.outcome, end.problems) == ("succeeded", ()), end.reason
    assert len(progress.of(Requeued)) == 1
    run = only_training(runs.run / "tasks" / "000000-x" / "work" / "runs")
    assert len(run.record.sessions) == 2
    assert [row["epoch"] for row in run.history] == [1, 2, 3]
    assert (tmp_path / "kept" / run.name / "model.safetensors").is_file()


def test_a_bare_torchrun_finds_the_other_node(runs, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([1.0 + dist.get_rank()])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item():g}", flush=True)
dist.destroy_process_group()
""")
    progress = runs(f"""
        name: x
        command: [{sys.executable}, -m, torch.distributed.run, {program}]
        resources: {{nodes: 2}}
        """)
    assert progress.ends["x"].outcome == "succeeded", progress.ends["x"].reason
    task = runs.run / "tasks" / "000000-x"
    assert (task / "stdout").read_text() == "rank 0 of 2: 3\n"
    assert (task / "stdout.node-1").read_text() == "rank 1 of 2: 3\n"
