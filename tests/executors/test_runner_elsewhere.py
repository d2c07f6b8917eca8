"""What is said of a runner that was submitted to another cluster than the one that answers."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tarmac.executors.kubernetes import runners as kubernetes
from tarmac.executors.queueing import ClusterId, note_runner_cluster
from tarmac.executors.slurm.runners import SlurmRunners
from tarmac.slurm.answers import ACCOUNT_FORMAT

CONFIG = """Configuration data as of 2026-11-27T00:00:00
ClusterName             = here
SlurmctldHost[0]        = c2
SlurmctldPort           = 6817
AccountingStorageType   = accounting_storage/slurmdbd
SLURM_VERSION           = 22.05.8"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Let commands answer as a Slurm whose job 39 is somebody else's, and which has no other."""
    header = ACCOUNT_FORMAT.replace(",", "|")
    queue = "tarmac|JOBID|NAME|STATE|NODELIST|REASON"
    accounts = f"{header}\n39|FAILED|1:0|n1|||||"
    for name, answer in (("scontrol", CONFIG), ("squeue", queue), ("sacct", accounts)):
        (tmp_path / "bin").mkdir(exist_ok=True)
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\ncat << END\n{answer}\nEND\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)

    def look(run):
        return SlurmRunners().look(run, 1, "39", datetime.now(UTC))

    return look


@pytest.fixture
def cluster(monkeypatch):
    """Let a cluster answer that has no Job."""
    objects = {"Namespace": {"metadata": {"uid": "here"}}}
    answering = SimpleNamespace(
        get=lambda kind, _: objects.get(kind), context="", server="https://here"
    )
    monkeypatch.setattr(kubernetes, "_connect", lambda *_, **__: contextlib.nullcontext(answering))

    def look(run):
        return kubernetes.KubernetesRunners().look(run, 1, "x-runner-1", datetime.now(UTC))

    return look


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (ClusterId("tarmac", "tarmac@c1"), "on the Slurm cluster tarmac, and this is here"),
        (
            ClusterId("here", "here@c1:6817"),
            "on the Slurm cluster here (c1:6817), and this is here (c2:6817)",
        ),
    ],
)
def test_a_runner_of_another_slurm_is_said_to_be_there(tmp_path, slurm, there, words):
    note_runner_cluster(tmp_path, there)
    state = slurm(tmp_path)
    assert (state.kind, state.words) == ("elsewhere", f"job 39 is {words}")


def test_a_runner_of_another_kubernetes_is_said_to_be_there(tmp_path, cluster):
    note_runner_cluster(tmp_path, ClusterId("https://there", "there"))
    state = cluster(tmp_path)
    words = "on the Kubernetes cluster https://there, and this is https://here"
    assert (state.kind, state.words) == ("elsewhere", f"job x-runner-1 is {words}")


@pytest.mark.parametrize("noted", ["here", "silent", "never", "damaged"])
def test_a_runner_that_this_cluster_has_lost_is_not_looked_for_elsewhere(
    tmp_path, slurm, cluster, noted
):
    (tmp_path / "runners").mkdir()
    for look, uid in ((slurm, "here@c2:6817"), (cluster, "here")):
        if noted == "damaged":
            (tmp_path / "runners" / "where.json").write_text('{"name": [1], "uid": {}}')
        elif noted != "never":
            note_runner_cluster(tmp_path, ClusterId("here", uid) if noted == "here" else None)
        assert look(tmp_path).kind == "ended"
