"""Runners that are jobs of Ray's: submitted over HTTP, found again, refused in words."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
import pytest

from tarmac.jobs import find_executor
from tarmac.ray import RayJob, RayJobs, Submission
from waiting import wait_until

pytestmark = pytest.mark.ray

WITHIN_S = 120.0
# Ray ends a head whose parts do not come within 15 s, which a busy machine may not keep.
TRIES = 3
# Of a cluster that lives as long as the tests.
TOKEN = "0123456789abcdef0123456789abcdef"


def free_ports(number: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    found = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return found


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory):
    """Start a head with a dashboard that asks for a token; yields the variables that lead there."""
    pytest.importorskip("ray", reason="needs pip install 'tarmac-gpu[ray]'")
    for left in reversed(range(TRIES)):
        head, variables = start_head_with_token(tmp_path_factory)
        try:
            if takes_jobs(head, variables["RAY_API_SERVER_ADDRESS"]):
                yield variables
                return
        finally:
            head.terminate()
            head.wait(60)
        assert left, "the head has ended"


def takes_jobs(head: subprocess.Popen[bytes], address: str) -> bool:
    """Wait until a head has done a job; return whether it has, and has not ended before."""
    jobs = RayJobs(address, TOKEN)

    def end_of_first() -> RayJob | None:
        jobs.submit(Submission(name="first", entrypoint="true"))
        job = jobs.look("first")
        has_ended = isinstance(job, RayJob) and job.state not in ("pending", "running")
        return job if has_ended else None

    try:
        job = wait_until(end_of_first, "the first job", seconds=WITHIN_S, unless=head.poll)
    except AssertionError:
        return False
    return job.state == "succeeded"


def start_head_with_token(tmp_path_factory) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    """Start a head; return it, and the variables that lead there."""
    port, web, agent = free_ports(3)
    # Sockets below it have long names, and a limit of 107 characters.
    place = tmp_path_factory.mktemp("r")
    own = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "RAY_TMPDIR": f"/tmp/tarmac-ray-{os.getpid()}",
        "TARMAC_SPOOL": str(place / "spool"),
    }
    options = [
        f"--port={port}",
        f"--dashboard-port={web}",
        f"--dashboard-agent-listen-port={agent}",
    ]
    options += ["--num-cpus=4", "--object-store-memory=80000000", "--disable-usage-stats"]
    # It waits for its nodes, and ends them when it is told to end.
    head = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", *options],
        env=os.environ | own,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return head, own | {
        "RAY_ADDRESS": f"127.0.0.1:{port}",
        "RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{web}",
    }


@pytest.fixture
def tarmac(dashboard, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / "runs"))
    for name, value in dashboard.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tarmac", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)

    return run


def state_of(tarmac) -> str:
    (row,) = json.loads(tarmac("ps", "--all", "--json").stdout)
    return row["state"]


def wait_for(is_so, what: str):
    return wait_until(is_so, what, seconds=WITHIN_S)


def test_a_submitted_run_is_a_job_and_no_secret_is_to_be_seen_there(tarmac, dashboard, monkeypatch):
    monkeypatch.setenv("KEY", "hunter2hunter2")
    Path("job.yaml").write_text(
        "{name: x, command: 'test ${#SECRET} = 14', sweep: {repeat: 3}, "
        "secrets: {SECRET: {env: KEY}}}"
    )
    made = tarmac("submit", "job.yaml", "--on", "ray", "--json")
    assert made.returncode == 0, made.stderr
    (row,) = json.loads(made.stdout)
    run = Path(row["path"])
    wait_for(
        lambda: state_of(tarmac) == "succeeded",
        f"the run has succeeded: {run}",
    )
    address = dashboard["RAY_API_SERVER_ADDRESS"]
    name = row["runner_job"].removesuffix(f" at {address}")
    wait_for(lambda: RayJobs(address, TOKEN).look(name).state == "succeeded", "its job has ended")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    seen = [
        httpx.get(f"{address}/api/jobs/{path}", headers=headers).text
        for path in ("", name, f"{name}/logs")
    ]
    assert str(run) in seen[1]
    assert "hunter2" not in f"{seen}"
    for path in run.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path


def test_a_run_is_submitted_from_where_ray_is_not_installed(tarmac, tmp_path):
    Path("job.yaml").write_text("{name: x, command: 'true'}")
    without = "import sys; sys.modules['ray'] = None; from tarmac.cli import main; main()"

    def there(*words):
        command = [sys.executable, "-c", without, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)

    here = there("run", "job.yaml", "--on", "ray")
    assert here.returncode == 2
    assert "--on ray needs the package ray" in here.stderr
    assert "tarmac submit FILE --on ray" in here.stderr
    assert there("submit", "job.yaml", "--on", "ray", "--runner", "here").returncode == 2
    made = there("submit", "job.yaml", "--on", "ray", "--json")
    assert made.returncode == 0, made.stderr
    wait_for(lambda: state_of(tarmac) == "succeeded", "the run has succeeded")


def test_a_cancelled_runner_ends_its_tasks_and_itself(tarmac, dashboard, tmp_path):
    Path("job.yaml").write_text(
        f"{{name: x, command: 'touch {tmp_path}/begun; exec sleep 600', timeout: 15m}}"
    )
    made = tarmac("submit", "job.yaml", "--on", "ray", "--json")
    (row,) = json.loads(made.stdout)
    wait_for((tmp_path / "begun").exists, "the task has begun")
    assert tarmac("cancel", row["path"]).returncode == 0
    wait_for(lambda: state_of(tarmac) not in ("running", "queued"), "the run has ended")
    name, _, address = row["runner_job"].partition(" at ")
    wait_for(
        lambda: RayJobs(address, TOKEN).look(name).state not in ("pending", "running"),
        "its job has ended",
    )


def test_a_run_whose_runner_ray_has_stopped_is_interrupted_and_goes_on(tarmac, dashboard, tmp_path):
    Path("job.yaml").write_text(
        f"{{name: x, command: 'echo $$ >> {tmp_path}/pids; test -e {tmp_path}/go || sleep 600'}}"
    )
    (row,) = json.loads(tarmac("submit", "job.yaml", "--on", "ray", "--json").stdout)
    wait_for((tmp_path / "pids").exists, "the task has begun")
    name, _, address = row["runner_job"].partition(" at ")
    assert RayJobs(address, TOKEN).stop(name) is True
    wait_for(lambda: state_of(tarmac) == "interrupted", "the run is interrupted")
    program = int((tmp_path / "pids").read_text())
    wait_for(lambda: not psutil.pid_exists(program), "the program has ended")
    (tmp_path / "go").touch()
    resumed = tarmac("run", "--resume", row["path"])
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert len((tmp_path / "pids").read_text().split()) == 2


def test_a_driver_needs_the_token_too(tarmac, monkeypatch):
    Path("job.yaml").write_text("{name: x, command: 'true'}")
    done = tarmac("run", "job.yaml", "--on", "ray")
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another-token-another-token")
    refused = tarmac("run", "job.yaml", "--on", "ray")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "does not take the token" in refused.stderr
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    without = tarmac("run", "job.yaml", "--on", "ray")
    assert without.returncode == 2, without.stdout + without.stderr
    assert "asks for a token" in without.stderr
    assert "RAY_AUTH_TOKEN" in without.stderr


def test_the_same_submission_is_one_job_and_an_unknown_one_is_none(dashboard):
    jobs = RayJobs(dashboard["RAY_API_SERVER_ADDRESS"], TOKEN)
    mine = Submission(name="tarmac-twice-1", entrypoint="exit 3")
    assert jobs.submit(mine) == jobs.submit(mine) == "tarmac-twice-1"
    ended = wait_for(
        lambda: (found := jobs.look("tarmac-twice-1")).state == "failed" and found, "it has ended"
    )
    assert ended.exit_code == 3
    assert jobs.look("tarmac-never-1") is None
    assert jobs.stop("tarmac-never-1") is False


def test_a_silent_dashboard_is_said_with_what_to_do(tarmac, monkeypatch):
    Path("job.yaml").write_text("{name: x, command: 'true'}")
    (nobody,) = free_ports(1)
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", f"http://127.0.0.1:{nobody}")
    silent = tarmac("submit", "job.yaml", "--on", "ray")
    assert silent.returncode == 1
    assert "Ray's dashboard does not answer" in silent.stderr
    assert "RAY_API_SERVER_ADDRESS" in silent.stderr


def test_what_became_of_a_runners_job_is_said(dashboard, monkeypatch, tmp_path):
    for name, value in dashboard.items():
        monkeypatch.setenv(name, value)
    runners = find_executor("ray").runners
    assert runners is not None
    address = dashboard["RAY_API_SERVER_ADDRESS"]
    gone = runners.look(tmp_path, 1, f"tarmac-gone-1 at {address}", datetime.now(UTC))
    assert gone.kind == "ended"
    assert "is no longer known to Ray" in gone.words
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another-token-another-token")
    refused = runners.look(tmp_path, 1, f"tarmac-gone-1 at {address}", datetime.now(UTC))
    assert refused.kind == "unknown"
    assert "does not take the token" in refused.words
