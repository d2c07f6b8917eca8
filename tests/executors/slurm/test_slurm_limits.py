"""Slurm's own limits of time and memory: whose they are is said, whoever hits them."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tarmac.jobs import Began

pytestmark = pytest.mark.slurm

SETTINGS = (
    "OverTimeLimit=0",
    "JobAcctGatherType=jobacct_gather/linux",
    "JobAcctGatherFrequency=task=1",
    "JobAcctGatherParams=OverMemoryKill",
    "KillWait=5",
)
CLUSTER = {
    "cpus": 4,
    "partitions": (
        "PartitionName=main Nodes=ALL Default=YES State=UP",
        "PartitionName=short Nodes=ALL State=UP DefaultTime=1",
    ),
}


def agent_of(runs, index: int) -> int:
    """Return the process of a first attempt's agent."""
    (record,) = runs.run.glob(f"tasks/{index:06d}-*/attempt-1.json")
    return json.loads(record.read_text())["process"]["pid"]


# Slurm's limits are whole minutes, and it looks twice a minute who is over one. A partition's may
# be so short that its jobs are warned as they begin.
def test_the_time_limit_of_a_job_is_told_from_that_of_its_partition(runs):
    stopped: set[int] = set()

    def stop_one_agent(progress):
        for event in progress.of(Began):
            index = event.attempt.task.index
            if event.attempt.task.name == "stuck" and index not in stopped:
                stopped.add(index)
                os.kill(agent_of(runs, index), signal.SIGSTOP)

    progress = runs(
        """
        name: x
        resources: {cpus: 0.1}
        tasks:
          - {name: asked, command: [sleep, '600'], options: {slurm: {time: 1m}}}
          - {name: stuck, command: [sleep, '600'], options: {slurm: {time: 1m}}}
          - {name: given, command: [sleep, '600'], options: {slurm: {partition: short}}}
          - name: goes_on
            command: '[ $TARMAC_ATTEMPT = 3 ] || sleep 600'
            options: {slurm: {partition: short, requeue_on_timeout: true}}
        """,
        stop_one_agent,
    )
    of_job = "the time limit of its job in Slurm, 1 min"
    of_partition = f"{of_job}, which partition short sets by default: set `time` in options.slurm"
    assert progress.ends.pop("goes_on").outcome == "succeeded"
    assert progress.retries == [("goes_on", of_partition)] * 2
    ends = {name: (end.cause, end.reason, end.attempts) for name, end in progress.ends.items()}
    assert ends == {
        "asked": ("timeout", of_job, 1),
        "stuck": ("timeout", of_job, 1),
        "given": ("timeout", of_partition, 1),
    }


def test_a_task_whose_memory_slurm_minds_has_failed_for_it_and_is_not_begun_again(runs):
    progress = runs(
        """
        name: x
        command: [python3, -c, "x = bytearray(400 << 20); import signal; signal.pause()"]
        """
    )
    end = progress.ends["x"]
    assert (end.outcome, end.cause, end.attempts) == ("failed", "memory", 1)
    assert end.reason.startswith("it took ")
    assert end.reason.endswith(" MiB of memory, and its job had 256 MiB in Slurm")


def test_a_task_that_has_waited_for_as_long_as_it_may_fails_with_what_it_waits_for(runs, cluster):
    cluster.run("scontrol", "update", "PartitionName=short", "State=DOWN")
    try:
        progress = runs(
            """
            name: x
            command: "true"
            options: {slurm: {partition: short, pending_limit: 2s}}
            """
        )
    finally:
        cluster.run("scontrol", "update", "PartitionName=short", "State=UP")
    end = progress.ends["x"]
    assert (end.outcome, end.cause) == ("failed", "start")
    assert end.reason == (
        "it has waited for 2 s, which is its `pending_limit`: its partition is down; choose "
        "another `partition`, or wait (PartitionDown)"
    )
    cluster.wait_until(lambda: not cluster.run("squeue", "-h"), "its job is cancelled")
