"""The agent under a real Slurm: what Slurm does to a job's processes, and what is made of it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tarmac.node import read_attempt

pytestmark = pytest.mark.slurm

# Says that it is there, and each SIGTERM that it gets, within the grace also on a busy machine.
_GRACE_S = 4
_SAYS_TERM = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: print("TERM", flush=True))
open(sys.argv[1], "w").write(str(os.getpid()))
while True:
    signal.pause()
"""


@pytest.fixture(scope="module")
def cluster(start_slurm):
    # So long a requeued job waits, two minutes otherwise.
    return start_slurm(settings=["AuthInfo=cred_expire=5"])


@pytest.fixture
def submit(cluster, run):
    """Return a function that submits an element; returns the job's id."""
    jobs = []

    def submit(element, *options: str) -> str:
        script = f"exec sh {run.agent} {run.chunk(element)} 0"
        output = f"--output={run.path}/engine.log"
        command = ("sbatch", "--parsable", "--open-mode=append", output)
        jobs.append(cluster.run(*command, *options, f"--wrap={script}").strip())
        return jobs[-1]

    yield submit
    if jobs:
        cluster.run("scancel", "--quiet", *jobs)


def ended(cluster, element):
    """Wait for an attempt's end; return its record."""

    def look():
        record = read_attempt(Path(element.directory), element.number)
        return record if record is not None and record.state == "ended" else None

    cluster.wait_until(lambda: look() is not None, "the attempt has ended")
    return look()


def test_a_cancelled_program_is_told_once_and_has_its_grace(cluster, run, submit):
    pipe = run.pipe()
    element = run.element(sys.executable, "-c", _SAYS_TERM, str(pipe), grace_s=_GRACE_S)
    job = submit(element)
    pipe.read_text()
    cluster.run("scancel", job)
    record = ended(cluster, element)
    assert (record.outcome, record.cause, record.exit_code) == ("interrupted", "stop", -9)
    assert record.reason == "its engine ended it (SIGTERM)"
    assert (record.engine_id, record.host) == (job, "n1")
    assert run.printed(element) == "TERM\n"


def test_slurms_warning_becomes_one_sigterm_for_the_program(cluster, run, submit):
    pipe = run.pipe()
    element = run.element(sys.executable, "-c", _SAYS_TERM, str(pipe), grace_s=_GRACE_S)
    job = submit(element)
    pipe.read_text()
    # As --signal=B:USR1@60 does a minute before the time limit.
    cluster.run("scancel", "--batch", "--signal=USR1", job)
    record = ended(cluster, element)
    assert record.outcome == "interrupted"
    assert record.reason == "its engine announced its end (SIGUSR1)"
    assert run.printed(element) == "TERM\n"


def test_a_requeued_attempt_goes_on_as_the_same_one(cluster, run, submit):
    pipe = run.pipe()
    script = 'echo "restart $TARMAC_RESTART"; [ $TARMAC_RESTART = 1 ] && exit 0'
    element = run.element("sh", "-c", f"{script}; echo > {pipe}; exec sleep 600")
    job = submit(element, "--requeue")
    pipe.read_text()
    cluster.run("scontrol", "requeue", job)
    cluster.wait_until(lambda: _restart(element) == 1, "the attempt was begun again")
    record = ended(cluster, element)
    assert (record.outcome, record.restart, record.engine_id) == ("succeeded", 1, job)
    assert run.printed(element) == "restart 0\nrestart 1\n"
    assert run.printed(element, "stderr").startswith("--- restart 1 on n")


def _restart(element) -> int:
    record = read_attempt(Path(element.directory), element.number)
    return 0 if record is None else record.restart


def test_a_killed_agent_leaves_no_program(cluster, run, submit):
    pipe = run.pipe()
    element = run.element(sys.executable, "-c", _SAYS_TERM, str(pipe))
    submit(element)
    program = psutil.Process(int(pipe.read_text()))
    record = read_attempt(Path(element.directory), 1)
    assert record is not None
    os.kill(record.process["pid"], signal.SIGKILL)
    program.wait(60)
    record = read_attempt(Path(element.directory), 1)
    assert record is not None
    assert record.state == "began"


def test_a_job_that_slurm_suspends_does_not_spend_its_time(cluster, run, submit):
    ready, go = run.pipe("ready"), run.pipe("go")
    command = f"echo > {ready}; cat {go}"
    element = run.element("sh", "-c", command, timeout_s=8)
    job = submit(element)
    ready.read_text()
    cluster.run("scontrol", "suspend", job)
    # So long that it is told from a busy machine, and longer than the limit.
    cluster.run("sleep", "9")
    cluster.run("scontrol", "resume", job)
    go.write_text("went on\n")
    assert ended(cluster, element).outcome == "succeeded"
    assert run.printed(element) == "went on\n"


def test_slurms_gpus_are_the_attempts(cluster, run, submit):
    element = run.element("sh", "-c", "echo $CUDA_VISIBLE_DEVICES", gpus=2, is_pretending=True)
    submit(element, "--gpus-per-node=2")
    assert ended(cluster, element).gpus == ["0", "1"]
    assert run.printed(element) == "0,1\n"
    more = element._replace(number=2)
    submit(more, "--gpus-per-node=1")
    record = ended(cluster, more)
    assert record.cause == "start"
    assert record.reason == (
        f"not started: Slurm gave 1 of 2 GPUs on {record.host}; is its gres.conf right?"
    )
