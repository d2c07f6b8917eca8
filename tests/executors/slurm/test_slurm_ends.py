"""How attempts on Slurm end, without accounting: by records first, by Slurm's word second."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tarmac.errors import RequestError
from tarmac.jobs import Began, Requeued, Waiting, find_executor, parse_job, plan_tasks

pytestmark = pytest.mark.slurm

# A job that is queued again waits for as long as its credential holds, else two minutes.
SETTINGS = ("MinJobAge=2", "OverTimeLimit=0", "AuthInfo=cred_expire=5")
CLUSTER = {"cpus": 4}


def once(is_so, do):
    """Return what does something the first time that something is so."""
    done = []

    def act(progress):
        if not done and is_so(progress):
            done.append(True)
            do(progress)

    return act


def begun(progress) -> bool:
    return bool(progress.of(Began))


def agent_of(runs, index: int = 0, number: int = 1) -> int:
    """Return the process of an attempt's agent."""
    (record,) = runs.run.glob(f"tasks/{index:06d}-*/attempt-{number}.json")
    return json.loads(record.read_text())["process"]["pid"]


def job_of(runs) -> str:
    """Return Slurm's number of the only chunk."""
    (chunk,) = runs.run.glob("chunks/*.json")
    return json.loads(chunk.read_text())["job"]


def test_ends_are_right_where_slurm_has_forgotten_them(runs):
    ended = runs(
        """
        name: x
        resources: {cpus: 0.1}
        tasks:
          - {name: good, command: 'true'}
          - {name: code, command: exit 3}
          - {name: late, command: sleep 60, timeout: 0.2}
          - {name: shot, command: kill -9 $$}
        """
    ).ends
    assert {name: (end.outcome, end.cause, end.reason) for name, end in ended.items()} == {
        "good": ("succeeded", None, ""),
        "code": ("failed", "exit", "exit code 3"),
        "late": ("failed", "timeout", "its time limit of 0.2 s"),
        "shot": ("failed", "signal", "signal 9"),
    }
    assert {end.host for end in ended.values()} <= {"n1", "n2"}


def test_an_agent_that_is_killed_is_no_success_and_its_task_is_done_again(runs):
    job = """
        name: x
        command: 'echo $TARMAC_ATTEMPT >> ../../../../seen; [ $TARMAC_ATTEMPT != 1 ] || sleep 600'
        """

    def has_written(_) -> bool:
        return bool(runs.lines("seen"))

    progress = runs(job, once(has_written, lambda _: os.kill(agent_of(runs), signal.SIGKILL)))
    assert progress.ends["x"].outcome == "succeeded"
    assert progress.ends["x"].attempts == 2
    assert len(progress.retries) == 1
    assert runs.lines("seen") == ["1", "2"]


def test_a_task_that_slurm_requeues_goes_on_as_the_same_attempt(runs, cluster):
    job = """
        name: x
        command: 'echo $TARMAC_RESTART >> ../../../../seen; [ $TARMAC_RESTART != 0 ] || sleep 600'
        """

    def has_written(progress) -> bool:
        return begun(progress) and bool(runs.lines("seen"))

    progress = runs(
        job, once(has_written, lambda _: cluster.run("scontrol", "requeue", job_of(runs)))
    )
    end = progress.ends["x"]
    assert (end.outcome, end.attempts) == ("succeeded", 1)
    assert len(progress.of(Requeued)) == 1
    assert not progress.retries
    assert runs.lines("seen") == ["0", "1"]


def test_what_somebody_cancels_has_failed_in_words_and_is_not_retried(runs, cluster):
    job = "{name: x, retries: 3, command: sleep 600}"
    progress = runs(job, once(begun, lambda _: cluster.run("scancel", job_of(runs))))
    end = progress.ends["x"]
    assert (end.outcome, end.cause, end.attempts) == ("failed", "cancelled", 1)
    assert "scancel" in end.reason


def test_a_job_that_is_held_says_so(runs, cluster):
    cluster.run("scontrol", "update", "PartitionName=main", "State=DOWN")

    def let_go(progress):
        if any("partition" in event.reason for event in progress.of(Waiting)):
            cluster.run("scontrol", "update", "PartitionName=main", "State=UP")

    try:
        progress = runs("{name: x, command: 'true'}", let_go)
    finally:
        cluster.run("scontrol", "update", "PartitionName=main", "State=UP")
    assert progress.ends["x"].outcome == "succeeded"


def test_tasks_never_have_more_gpus_than_there_are_nor_the_same(runs):
    progress = runs(
        """
        name: x
        resources: {cpus: 0.1, gpus: 1}
        sweep: {repeat: 8}
        command: |
          taken=../../../../$SLURMD_NODENAME-$CUDA_VISIBLE_DEVICES
          mkdir $taken && sleep 0.2 && rmdir $taken && basename $taken >> ../../../../seen
        """
    )
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    assert len(runs.lines("seen")) == 8
    assert {*runs.lines("seen")} <= {f"{node}-{gpu}" for node in ("n1", "n2") for gpu in (0, 1)}


def test_more_gpus_than_any_node_has_are_refused_at_once(on_cluster, tmp_path):
    tasks = [*plan_tasks(parse_job("{name: x, command: a, resources: {gpus: 3}}"), tmp_path)]
    with pytest.raises(RequestError, match="3 GPUs are requested on a node, and no node"):
        find_executor("slurm").refuse(tasks, 0)
