"""Secrets on a real Slurm, with accounts where those can be kept: stored nowhere, and then gone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from by_commands import queued_names, wait_for, write_job

from tarmac.jobs import Silent, create_run, parse_job, prepare, task_directory, work_on

pytestmark = pytest.mark.slurm

HAS_ACCOUNTS = all(shutil.which(name) for name in ("slurmdbd", "mariadbd", "munged"))
CLUSTER = {"accounting": HAS_ACCOUNTS}
SETTINGS = ("AccountingStoreFlags=job_script,job_env,job_comment",) if HAS_ACCOUNTS else ()

# Processes of tests beside these have secrets of their own.
SECRET = f"hunter2-{secrets.token_hex(4)}"

RUNNER = """
import sys
from pathlib import Path
from tarmac.jobs import Silent, create_run, find_run, parse_job, prepare, work_on

here = Path.cwd()
if sys.argv[1] == "new":
    job = parse_job((here / "job.yaml").read_text())
    tasks = prepare(job, here, executor="slurm")
    run = create_run(job, here, tasks, here / "runs", executor="slurm")
else:
    run = find_run("latest", here / "runs")
ends = work_on(run, Silent())
sys.exit(f"{dict(ends)}" if set(ends) != {"succeeded"} else 0)
"""


@pytest.fixture
def start(on_cluster, tmp_path, monkeypatch):
    """Return a function that starts a program in a process of its own."""
    monkeypatch.setenv("TARMAC_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("VAULT", SECRET)
    (tmp_path / "job.yaml").write_text(
        textwrap.dedent(
            f"""
            name: x
            command: 'touch {tmp_path}/begun; test ${{#TOKEN}} = {len(SECRET)} || exit 3;
              while ! [ -e {tmp_path}/go ]; do sleep 0.1; done'
            secrets: {{TOKEN: {{env: VAULT}}}}
            """
        )
    )
    started = []

    def go(*arguments: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield go
    (tmp_path / "go").touch()
    for process in started:
        process.kill()
        process.communicate()


def secrets_in(root: Path) -> list[Path]:
    """Return the files below a directory that hold the secret."""
    found = []
    for path in root.rglob("*"):
        # Files of a cluster come and go.
        with contextlib.suppress(OSError):
            if path.is_file() and SECRET.encode() in path.read_bytes():
                found.append(path)
    return found


@pytest.fixture
def killed(start, tmp_path):
    """Have a task begin, and kill its runner."""
    runner = start("-c", RUNNER, "new")
    wait_for((tmp_path / "begun").exists, "the task", unless=runner.poll)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    assert len(secrets_in(tmp_path / "spool")) == 1


def test_the_next_session_of_a_run_whose_runner_was_killed_removes_its_secrets(
    killed, start, tmp_path
):
    resumed = start("-c", RUNNER, "latest")
    (tmp_path / "go").touch()
    said, _ = resumed.communicate(timeout=200)
    assert resumed.returncode == 0, said
    assert not any((tmp_path / "spool").iterdir())
    assert not secrets_in(tmp_path)


def test_cancelling_a_run_whose_runner_was_killed_removes_its_secrets(killed, start, tmp_path):
    cancelling = start("-m", "tarmac", "cancel", "latest", "--output", str(tmp_path / "runs"))
    said, _ = cancelling.communicate(timeout=200)
    assert cancelling.returncode == 0, said
    assert not any((tmp_path / "spool").iterdir())
    assert not secrets_in(tmp_path)


def test_a_session_that_breaks_off_leaves_what_slurm_has_its_secrets(
    on_cluster, tmp_path, monkeypatch
):
    monkeypatch.setenv("TARMAC_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("VAULT", SECRET)
    job = parse_job(
        f"""
        name: x
        command: 'touch {tmp_path}/begun; while ! [ -e {tmp_path}/go ]; do sleep 0.1; done'
        secrets: {{TOKEN: {{env: VAULT}}}}
        """
    )
    tasks = prepare(job, tmp_path, executor="slurm")
    run = create_run(job, tmp_path, tasks, tmp_path / "runs", executor="slurm")

    def breaks_off() -> bool:
        if (tmp_path / "begun").exists():
            raise OSError("no space left")
        return False

    with pytest.raises(OSError, match="no space left"):
        work_on(run, Silent(), stop=breaks_off)
    assert len(secrets_in(tmp_path / "spool")) == 1
    (tmp_path / "go").touch()
    assert work_on(run, Silent()) == {"succeeded": 1}
    assert not any((tmp_path / "spool").iterdir())


def test_slurm_stores_no_secret_and_no_process_shows_one(on_cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("VAULT", SECRET)
    seen = {}

    def look() -> bool:
        """Look around once the task has begun, and let it go on."""
        if not (tmp_path / "begun").exists() or seen:
            return False
        number = on_cluster.run("squeue", "-h", "-t", "R", "-o", "%A").strip()
        shown = shown_of(on_cluster, number, tmp_path / "script")
        processes = psutil.process_iter(["cmdline"])
        lines = [" ".join(process.info["cmdline"] or ()) for process in processes]
        seen["shown"] = SECRET in shown
        seen["lines"] = [line for line in lines if SECRET in line]
        seen["files"] = secrets_in(on_cluster.directory) + secrets_in(tmp_path / "runs")
        seen["spool"] = [path.stat().st_mode & 0o777 for path in secrets_in(tmp_path / "spool")]
        (tmp_path / "go").touch()
        return False

    job = parse_job(
        f"""
        name: x
        command: 'printf %s "$TOKEN" | sha256sum; touch {tmp_path}/begun;
          while ! [ -e {tmp_path}/go ]; do sleep 0.1; done'
        secrets: {{TOKEN: {{env: VAULT}}}}
        """
    )
    tasks = prepare(job, tmp_path, executor="slurm")
    run = create_run(job, tmp_path, tasks, tmp_path / "runs", executor="slurm")
    assert work_on(run, Silent(), stop=look) == {"succeeded": 1}
    printed = (task_directory(run.path, tasks[0]) / "stdout").read_text()
    assert printed.split()[0] == hashlib.sha256(SECRET.encode()).hexdigest()
    assert seen == {"shown": False, "lines": [], "files": [], "spool": [0o600]}
    assert not secrets_in(tmp_path)
    assert not any((tmp_path / "spool").iterdir())


@pytest.fixture
def submitted(tarmac, tmp_path, monkeypatch):
    """Return a function that submits a job with a secret, and a runner that is a job too."""
    monkeypatch.setenv("TARMAC_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("VAULT", SECRET)

    def submit(*words: str) -> tuple[Path, str]:
        write_job(
            f"""
            name: x
            command: 'touch {tmp_path}/begun; test ${{#TOKEN}} = {len(SECRET)} || exit 3;
              while ! [ -e {tmp_path}/go ]; do sleep 0.1; done'
            secrets: {{TOKEN: {{env: VAULT}}}}
            """
        )
        made = tarmac("submit", "job.yaml", "--on", "slurm", "--json", *words)
        assert made.returncode == 0, made.stderr
        (row,) = json.loads(made.stdout)
        monkeypatch.delenv("VAULT")
        return Path(row["path"]), row["runner_job"]

    yield submit
    (tmp_path / "go").touch()


def shown_of(cluster, job: str, script: Path) -> str:
    """Return all that Slurm shows of a job."""
    cluster.run("scontrol", "write", "batch_script", job, str(script))
    shown = cluster.run("scontrol", "show", "job", "-d", job) + script.read_text()
    if HAS_ACCOUNTS:
        # The accounts come a moment after the job.
        stored = ("sacct", "--jobs", job, "--env-vars")
        cluster.wait_until(lambda: "PATH=" in cluster.run(*stored), "they are stored")
        shown += cluster.run(*stored) + cluster.run("sacct", "--jobs", job, "--batch-script")
    return shown


def test_a_runner_that_is_a_job_has_secrets_that_slurm_never_sees(
    submitted, on_cluster, tarmac, tmp_path
):
    run, job = submitted()
    wait_for((tmp_path / "begun").exists, "the task has begun")
    assert SECRET not in shown_of(on_cluster, job, tmp_path / "script")
    lines = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if SECRET in line]
    runner = psutil.Process(json.loads((run / "runner.json").read_text())["pid"])
    assert "--resume" in runner.cmdline()
    assert SECRET not in runner.environ().values()
    assert not secrets_in(on_cluster.directory) + secrets_in(run)
    found = secrets_in(tmp_path / "spool")
    assert {path.name: path.stat().st_mode & 0o777 for path in found} == {
        "runner.json": 0o600,
        "VAULT": 0o600,
    }
    (tmp_path / "go").touch()
    wait_for(lambda: not queued_names(on_cluster), "all have ended")
    assert json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "succeeded"
    assert not any((tmp_path / "spool").iterdir())
    assert not secrets_in(tmp_path)


@pytest.mark.parametrize("by", ["tarmac", "scancel"])
def test_secrets_of_a_runner_that_is_cancelled_before_it_begins_are_removed(
    submitted, on_cluster, tarmac, tmp_path, by
):
    _, job = submitted("--set", "options.slurm.runner.sbatch=--begin=now+1hour")
    assert [path.name for path in secrets_in(tmp_path / "spool")] == ["runner.json"]
    if by == "scancel":
        on_cluster.run("scancel", job)
        (row,) = json.loads(tarmac("ps", "--json").stdout)
        assert "was cancelled" in row["runner_note"]
    cancelled = tarmac("cancel", "latest")
    assert cancelled.returncode == 0, cancelled.stderr
    assert not any((tmp_path / "spool").iterdir())


def test_secrets_of_a_runner_that_slurm_refuses_are_not_kept(submitted, wrapped, tmp_path):
    wrapped(
        "sbatch",
        """
        [[ "$*" = *--test-only* ]] && exec $REAL "$@"
        echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" >&2
        exit 1
        """,
    )
    with pytest.raises(AssertionError, match="Slurm refuses the runner"):
        submitted()
    assert not any((tmp_path / "spool").iterdir())


def test_secrets_of_a_runner_that_was_killed_serve_the_next_one_and_are_gone_at_the_end(
    submitted, on_cluster, tarmac, tmp_path
):
    run, _ = submitted()
    wait_for((tmp_path / "begun").exists, "the task has begun")
    psutil.Process(json.loads((run / "runner.json").read_text())["pid"]).kill()
    wait_for(
        lambda: json.loads(tarmac("ps", "--json").stdout)[0]["state"] == "detached",
        "the runner is gone",
    )
    # Here the variable is not set any more.
    handed = tarmac("run", "--resume", str(run), "--runner", "engine")
    assert handed.returncode == 0, handed.stderr
    (tmp_path / "go").touch()
    wait_for(lambda: not queued_names(on_cluster), "all have ended")
    assert json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "succeeded"
    assert not any((tmp_path / "spool").iterdir())
    assert not secrets_in(tmp_path)
