"""`check: quick` on a real Slurm: a node whose GPU is not fit is avoided."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slurm

SETTINGS = ("JobAcctGatherType=jobacct_gather/none",)

_MACHINE = Path(__file__).parents[2] / "checks" / "machines" / "pair.txt"

# In the place of Tarmac's own check, as nothing can be computed on a stand-in's GPU.
_CHECK = """\
#!/bin/sh
case $SLURMD_NODENAME in
  BAD) echo '{"failures": ["uncorrected memory errors (GPU 0)"], "unseen": []}' ;;
  *) echo '{"failures": [], "unseen": []}' ;;
esac
"""


@pytest.fixture
def with_bad_gpu(tmp_path, monkeypatch, stand_in):
    """Return a function that makes a job of some lines for a cluster one of whose nodes is bad."""

    def make(node: str, job: str) -> str:
        script = tmp_path / "python"
        script.write_text(_CHECK.replace("BAD", node))
        script.chmod(0o755)
        monkeypatch.setattr("tarmac.executors.elements.sys.executable", str(script))
        setup = f"export LD_LIBRARY_PATH={stand_in} NVML_STAND_IN={_MACHINE}"
        return f"{{{job}, options: {{slurm: {{check: quick, setup: '{setup}'}}}}}}"

    return make


def test_a_task_whose_node_has_a_bad_gpu_is_done_on_another_and_no_retry_is_spent(
    runs, with_bad_gpu
):
    # Slurm fills its first node first.
    progress = runs(
        with_bad_gpu(
            "n1",
            "name: x, command: 'echo $SLURMD_NODENAME $TARMAC_ATTEMPT >> ../../../../seen',"
            " resources: {gpus: 1}",
        )
    )
    assert progress.ends["x"].outcome == "succeeded", progress.ends["x"].reason
    ((_, reason),) = progress.retries
    assert reason.startswith(
        "not started: a GPU of n1 is not fit: uncorrected memory errors (GPU 0); see tarmac check "
        "there; this session avoids n1 from now on"
    )
    assert runs.lines("seen") == ["n2 2"]


def test_what_waits_already_is_kept_from_the_bad_node_too(runs, with_bad_gpu, cluster, tmp_path):
    gate = tmp_path / "gate"
    job = with_bad_gpu(
        "n1",
        f"name: x, command: 'until [ -e {gate} ]; do sleep 0.1; done', resources: {{gpus: 1}},"
        " sweep: {repeat: 60}",
    )
    excluded: list[str] = []

    def act(_):
        # What follows is submitted so; the first chunk waited before the node was known as bad.
        for path in runs.run.glob("chunks/0000.json"):
            first = json.loads(path.read_text())["job"]
            told = cluster.run("squeue", "--noheader", "--states=PD", "--format=%F %x")
            excluded.extend({*told.splitlines()} & {f"{first} n1"})

    runs(job, act, stop=lambda: bool(excluded))
    assert excluded


def test_of_an_attempt_on_two_nodes_the_one_with_the_bad_gpu_is_avoided(runs, with_bad_gpu):
    told: list[tuple[str, str]] = []

    def act(progress):
        told.extend(progress.retries[:1])

    job = with_bad_gpu("n2", "name: x, command: 'true', resources: {gpus: 1, nodes: 2}")
    progress = runs(job, act, stop=lambda: bool(told))
    assert not progress.ends
    assert told[0][1].startswith(
        "n2 (node 1): not started: a GPU of n2 is not fit: uncorrected memory errors (GPU 0); see "
        "tarmac check there; this session avoids n2 from now on"
    )


def test_pretended_gpus_are_said_not_to_be_looked_at_and_the_task_goes_on(runs):
    job = "{name: x, command: 'true', resources: {gpus: 1}, options: {slurm: {check: quick}}}"
    end = runs(job).ends["x"]
    assert end.outcome == "succeeded", end.reason
    (note,) = end.notes
    assert note.startswith("check: quick checked nothing: no driver shows GPUs on n")
    (errors,) = (runs.run / "tasks").glob("*/stderr")
    assert errors.read_text().startswith("--- check: quick checked nothing: no driver shows GPUs")
