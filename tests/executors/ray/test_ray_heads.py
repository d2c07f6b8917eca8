"""Runners and heads that are killed: what ran ends, and the run goes on, nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import ray

from ray_heads import start_head
from tarmac.jobs import Handle, Silent, find_run, work_on
from tarmac.processes.handles import has_ended

pytestmark = pytest.mark.ray

TARMAC = [sys.executable, "-m", "tarmac"]

JOB = """
name: x
resources: {{cpus: 1}}
tasks:
  - {{name: done, command: 'echo done >> {0}/lines'}}
  - name: stays
    needs: [done]
    command: >-
      echo $$ >> {0}/pids; test -e {0}/go || sleep 600; echo stays >> {0}/lines
"""


@pytest.fixture
def cluster(cluster_of_module):
    """Start a cluster for each test: one of them kills its head."""
    with cluster_of_module() as started:
        yield started


@pytest.fixture
def started(cluster, tmp_path, until):
    """Start a run on the cluster, of which one task has ended and one stays."""
    (tmp_path / "job.yaml").write_text(JOB.format(tmp_path))
    words = ["--on", "ray", "--output", "runs", "--set", f"options.ray.address={cluster.address}"]
    with subprocess.Popen(
        [*TARMAC, "run", "job.yaml", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as runner:
        try:
            until((tmp_path / "pids").exists, "the task did not begin")
            yield runner
        except AssertionError as error:
            runner.kill()
            raise AssertionError(f"{error}; it printed: {runner.communicate()[0]}") from error
        finally:
            runner.kill()


def program_of(tmp_path):
    return int((tmp_path / "pids").read_text().split()[0])


def test_a_run_whose_runner_was_killed_goes_on_and_nothing_runs_twice(
    started, tmp_path, until, monkeypatch
):
    started.kill()
    until(lambda: has_ended(program_of(tmp_path)), "the program outlives its runner")
    (tmp_path / "go").touch()
    (run,) = (tmp_path / "runs").iterdir()
    status = Handle(run).status()
    assert (status.state, [t.state for t in status.tasks]) == (
        "interrupted",
        ["succeeded", "interrupted"],
    )
    # What was disturbed begins again half a minute later.
    monkeypatch.setattr("tarmac.jobs.retries.disturbed_pause_s", lambda _: 0.1)
    assert work_on(find_run(str(run)), Silent()) == {"succeeded": 2}
    assert (tmp_path / "lines").read_text().split() == ["done", "stays"]


def test_an_interrupt_ends_what_runs(started, tmp_path, until):
    started.send_signal(signal.SIGINT)
    said, _ = started.communicate(timeout=60)
    assert has_ended(program_of(tmp_path))
    assert started.returncode != 0
    assert "tarmac run --resume" in said


def test_a_head_that_is_lost_interrupts_the_run_which_goes_on_with_another(
    started, cluster, tmp_path, until
):
    (gcs,) = cluster.cluster.head_node.all_processes["gcs_server"]
    os.kill(gcs.process.pid, signal.SIGKILL)
    said, _ = started.communicate(timeout=90)
    assert started.returncode == 1, said
    assert f"the head of the Ray cluster at {cluster.address} is gone" in said
    assert "tarmac run --resume" in said
    until(lambda: has_ended(program_of(tmp_path)), "the program goes on")
    assert (tmp_path / "lines").read_text().split() == ["done"]
    port = int(cluster.address.rpartition(":")[2])
    # A test before this one may have left this process connected.
    ray.shutdown()
    cluster.cluster.shutdown()
    (tmp_path / "go").touch()
    (run,) = (tmp_path / "runs").iterdir()
    another = start_head(num_cpus=4, gcs_server_port=port)
    try:
        words = [*TARMAC, "run", "--resume", str(run)]
        resumed = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    finally:
        another.shutdown()
    assert (tmp_path / "lines").read_text().split() == ["done", "stays"]
