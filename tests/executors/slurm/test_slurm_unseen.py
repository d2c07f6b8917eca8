"""What a node does not see is said in words: the run's directory, and its secrets."""

from __future__ import annotations

import contextlib
import os
import subprocess
import textwrap

import pytest

from tarmac.jobs import Silent, create_run, parse_job, prepare, work_on

pytestmark = pytest.mark.slurm


class Ends(Silent):
    """Remembers how tasks ended."""

    def __init__(self) -> None:
        self.ends = {}

    def ended(self, ended) -> None:
        self.ends[ended.task.name] = ended


@pytest.fixture
def hide(cluster):
    """Return a function that has a node see an empty directory in the place of one."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mounts of a process's own can be made here; run the tests as root")
    with contextlib.ExitStack() as nodes:

        def go(node: str, directory) -> None:
            cluster.end_daemon(node)
            script = (
                f'mount -t tmpfs none "{directory}" && exec slurmd -D -N {node} -f "$SLURM_CONF"'
            )
            daemon = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", script],
                env=os.environ | dict(cluster.variables),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

            def end() -> None:
                daemon.terminate()
                daemon.wait()
                cluster.start_daemon(node)

            nodes.callback(end)

        yield go


@pytest.fixture
def run(on_cluster, tmp_path, monkeypatch):
    """Return a function that runs a job of one task, and returns how that ended."""
    for place in ("runs", "spool"):
        (tmp_path / place).mkdir(mode=0o700)
    monkeypatch.setenv("TARMAC_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("VAULT", "hunter2")

    def go(text: str):
        job = parse_job(textwrap.dedent(text))
        tasks = prepare(job, tmp_path, executor="slurm")
        reporter = Ends()
        work_on(create_run(job, tmp_path, tasks, tmp_path / "runs", executor="slurm"), reporter)
        return reporter.ends["x"]

    return go


def test_a_node_that_does_not_see_the_runs_directory_is_said(run, hide, tmp_path):
    hide("n1", tmp_path / "runs")
    end = run("{name: x, command: 'true', options: {slurm: {sbatch: [--nodelist=n1]}}}")
    assert (end.outcome, end.cause) == ("failed", "start")
    assert end.reason.startswith(f"the run's directory {tmp_path}/runs/x-")
    assert "is not there on n1, or cannot be written to" in end.reason
    assert "TARMAC_RUNS" in end.reason


def test_a_node_that_does_not_see_a_secret_is_said(run, hide, tmp_path):
    hide("n2", tmp_path / "spool")
    end = run(
        """
        name: x
        command: "true"
        secrets: {TOKEN: {env: VAULT}}
        options: {slurm: {sbatch: [--nodelist=n2]}}
        """
    )
    assert (end.outcome, end.cause) == ("failed", "start")
    assert "the secret TOKEN cannot be read on n2" in end.reason
    assert "hunter2" not in end.reason
