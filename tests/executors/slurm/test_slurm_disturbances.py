"""What befalls attempts on Slurm: they are done again, and no retry is spent."""

from __future__ import annotations

import functools
import json

import pytest

from tarmac.executors import elements
from tarmac.jobs import Began, Requeued
from tarmac.node import AttemptSpec

pytestmark = pytest.mark.slurm

SETTINGS = ("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", "AuthInfo=cred_expire=5")
CLUSTER = {
    "cpus": 2,
    "partitions": (
        "PartitionName=low Nodes=ALL Default=YES State=UP PriorityTier=1 PreemptMode=REQUEUE",
        "PartitionName=gone Nodes=ALL State=UP PriorityTier=1 PreemptMode=CANCEL",
        "PartitionName=high Nodes=ALL State=UP PriorityTier=9 PreemptMode=OFF",
    ),
}


def job_of(runs, number: int = 0) -> str:
    """Return Slurm's number of a chunk."""
    return json.loads((runs.run / f"chunks/{number:04d}.json").read_text())["job"]


def when(*steps):
    """Return what takes steps one after another, each once its condition is met."""
    left = [*steps]

    def act(progress):
        while left and left[0][0](progress):
            left.pop(0)[1]()

    return act


def has_begun(runs):
    """Return the condition that a task is seen to run, and its program has written so."""
    return lambda progress: bool(progress.of(Began) and runs.lines("seen"))


def take_both_nodes(cluster):
    command = ["sbatch", "--parsable", "-p", "high", "-N2", "--exclusive", "--wrap", "sleep 2"]
    cluster.run(*command, "--output=/dev/null", "--chdir=/")


# The first try waits to be ended.
ONCE = "'echo $TARMAC_RESTART-$TARMAC_ATTEMPT >> ../../../../seen; {test} || sleep 600'"


def test_a_preempted_task_that_slurm_requeues_goes_on_as_the_same_attempt(runs, cluster):
    command = ONCE.format(test="[ $TARMAC_RESTART != 0 ]")
    progress = runs(
        f"{{name: x, command: {command}}}",
        when((has_begun(runs), lambda: take_both_nodes(cluster))),
    )
    end = progress.ends["x"]
    assert (end.outcome, end.attempts) == ("succeeded", 1)
    assert not progress.retries
    ((cause, reason),) = [(event.cause, event.reason) for event in progress.of(Requeued)]
    assert (cause, reason) == ("preempted", "a job of higher priority preempted it")
    assert runs.lines("seen") == ["0-1", "1-1"]


def test_a_preempted_task_that_slurm_cancels_is_submitted_again(runs, cluster):
    command = ONCE.format(test="[ $TARMAC_ATTEMPT != 1 ]")
    job = f"{{name: x, options: {{slurm: {{partition: gone}}}}, command: {command}}}"
    progress = runs(job, when((has_begun(runs), lambda: take_both_nodes(cluster))))
    end = progress.ends["x"]
    assert (end.outcome, end.attempts) == ("succeeded", 2)
    ((_, reason),) = progress.retries
    assert "a job of higher priority preempted it" in reason
    assert runs.lines("seen") == ["0-1", "0-2"]


def test_a_task_whose_node_fails_is_done_on_another(runs, cluster, monkeypatch):
    # Its agent lives on there, and is given a beat and a half to see that another one follows.
    monkeypatch.setattr(elements, "AttemptSpec", functools.partial(AttemptSpec, beat_s=2.0))
    command = ONCE.format(test="[ $TARMAC_RESTART != 0 ]")

    def fail():
        (host,) = [event.host for event in seen[0].of(Began)]
        cluster.end_daemon(host, kill=True)
        cluster.run("scontrol", "update", f"NodeName={host}", "State=DOWN", "Reason=test")
        failed.append(host)

    seen, failed = [], []

    def act(progress):
        seen[:] = [progress]
        steps(progress)

    steps = when((has_begun(runs), fail))
    try:
        progress = runs(f"{{name: x, command: {command}}}", act)
    finally:
        for host in failed:
            cluster.start_daemon(host)
            cluster.run("scontrol", "update", f"NodeName={host}", "State=RESUME")
    end = progress.ends["x"]
    assert end.outcome == "succeeded"
    assert end.host != failed[0]
    # Slurm puts it back itself, or says that its node has failed.
    requeues = [(event.cause, event.reason) for event in progress.of(Requeued)]
    assert requeues in ([], [("node", f"its node {failed[0]} was lost")])
    assert len(requeues) + len(progress.retries) == 1


# The broken node is fast, so that it would take the queue.
HOLE = """
name: x
sweep: {repeat: 8}
command: 'sleep 1'
options:
  slurm:
    setup: ['if [ $SLURMD_NODENAME = %s ]; then echo module: cannot load cuda >&2; exit 1; fi']
"""


def test_a_node_that_starts_nothing_takes_no_task_from_the_others_and_spends_no_retry(runs):
    progress = runs(HOLE % "n1")
    assert {(end.outcome, end.host) for end in progress.ends.values()} == {("succeeded", "n2")}
    reasons = [reason for _, reason in progress.retries]
    assert reasons
    assert all("module: cannot load cuda" in reason for reason in reasons)
    assert all("n1 is at fault" in reason or "avoids it" in reason for reason in reasons)
    assert sum("avoids it" in reason for reason in reasons) <= 1


def test_where_no_node_starts_anything_the_run_ends_with_that_error(runs):
    progress = runs(HOLE.replace("= %s", "!= ''"))
    assert {(end.outcome, end.cause) for end in progress.ends.values()} == {("failed", "start")}
    assert not progress.retries
