"""Jobs in the background, through the Python API."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tarmac
from tarmac.errors import RequestError
from tarmac.files import TRUSTED_USERS, OwnerLock
from tarmac.jobs import (
    Handle,
    Job,
    JobFailed,
    RunRequest,
    Secret,
    attach,
    changed_file,
    list_statuses,
    parse_job,
)
from tarmac.jobs.runner_record import note_runner
from tarmac.processes.identity import identify
from waiting import limit_s


def job(text: str) -> Job:
    return parse_job(text)


def wait_until_begun(handle) -> None:
    while not any(task.state == "running" for task in handle.status().tasks):
        handle.status()


def test_a_job_runs_in_the_background_and_returns_its_tasks(tmp_path):
    handle = tarmac.submit(
        job("{name: x, command: 'echo {{ n }}; echo bad >&2', sweep: {grid: {n: [1, 2]}}}"),
        output=tmp_path,
    )
    tasks = handle.result(timeout=limit_s(120))
    assert [(task.name, task.state, task.exit_code) for task in tasks] == [
        ("x[n=1]", "succeeded", 0),
        ("x[n=2]", "succeeded", 0),
    ]
    assert handle.stdout("x[n=2]") == "2\n"
    assert handle.stderr("x[n=2]") == "bad\n"
    assert (handle.done(), handle.running(), handle.cancelled()) == (True, False, False)
    assert handle.cancel() is False
    with pytest.raises(RequestError, match="2 started tasks, name one"):
        handle.stdout()


def run_elsewhere(*words) -> subprocess.Popen[str]:
    """Start Tarmac as on a machine of another name."""
    if subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not rename the machine for a process")
    rename = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]
    return subprocess.Popen(
        [*rename, sys.executable, "-m", "tarmac", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_runner_on_another_machine_ends_its_tasks_when_a_job_is_cancelled(tmp_path):
    (tmp_path / "job.yaml").write_text("{name: x, command: 'echo $$; exec sleep 600'}")
    with run_elsewhere("run", tmp_path / "job.yaml", "--output", tmp_path / "runs") as runner:
        started = next(line for line in runner.stdout if "started" in line)
        assert "x" in started
        handle = attach("latest", tmp_path / "runs")
        assert handle.status().elsewhere.host == "elsewhere"
        assert handle.cancel()
        said = runner.stdout.read()
    assert runner.returncode == 130, said
    assert "interrupted" in said
    assert handle.cancelled()
    assert not (handle.path / "cancel.json").exists()


def test_a_failed_job_raises_what_failed_and_where_its_logs_are(tmp_path):
    handle = tarmac.submit(job("{name: x, command: exit 3}"), output=tmp_path)
    error = handle.exception(timeout=limit_s(120))
    assert isinstance(error, JobFailed)
    assert str(error).startswith("1 of 1 task did not succeed: x: exit code 3\nRead the logs: ")
    with pytest.raises(JobFailed):
        handle.result()


def test_a_job_can_be_cancelled_by_another_process_and_goes_on_when_resumed(tmp_path):
    handle = tarmac.submit(
        job("{name: x, command: 'test -e ../../../go || sleep 600'}"), output=tmp_path
    )
    wait_until_begun(handle)
    assert handle.running()
    with pytest.raises(TimeoutError):
        handle.result(timeout=0.01)
    other = tarmac.attach(handle.path.name[:8], tmp_path)
    assert other.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        other.result(timeout=limit_s(120))
    assert handle.cancelled()
    (handle.path / "go").touch()
    again = tarmac.jobs.start_runner(tarmac.jobs.find_run(str(handle.path)))
    assert [task.state for task in again.result(timeout=limit_s(120))] == ["succeeded"]


def test_a_job_whose_runner_is_killed_is_interrupted(tmp_path):
    handle = tarmac.submit(job("{name: x, command: sleep 600}"), output=tmp_path)
    wait_until_begun(handle)
    runner = handle.status().runner
    assert runner is not None
    os.kill(runner.pid, signal.SIGKILL)
    with pytest.raises(concurrent.futures.CancelledError):
        handle.result(timeout=limit_s(120))
    (status,), broken = list_statuses(tmp_path)
    assert not broken
    assert (status.state, status.tasks[0].state) == ("interrupted", "interrupted")


def test_a_process_that_has_another_ones_number_is_not_taken_for_it():
    this = identify(os.getpid())
    assert this.is_alive()
    assert not this._replace(start_ticks=this.start_ticks - 1).is_alive()
    assert not this._replace(boot_id="earlier").is_alive()
    assert not this._replace(host="elsewhere").is_alive()


def test_a_signal_reaches_the_process_that_was_meant_and_none_with_its_number():
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        this = identify(sleeper.pid)
        assert not this._replace(start_ticks=this.start_ticks - 1).send(signal.SIGKILL)
        assert this.is_alive()
        assert this.send(signal.SIGKILL)
        assert sleeper.wait() == -signal.SIGKILL
    assert not this.send(signal.SIGKILL)


def test_another_users_job_is_not_cancelled_and_that_is_said(second_user, open_directory):
    handle = tarmac.submit(job("{name: x, command: sleep 600}"), output=open_directory)
    try:
        other = Handle(handle.path)
        with pytest.raises(
            RequestError, match="belongs to another user: no permission to end process"
        ):
            second_user(other.cancel)
        assert handle.running()
    finally:
        assert handle.cancel()
        handle._popen.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a run to another user")
def test_another_user_chooses_no_process_that_a_cancel_ends(open_directory, monkeypatch):
    monkeypatch.delenv(TRUSTED_USERS, raising=False)
    run = tarmac.run(job("{name: x, command: 'true'}"), output=open_directory).path
    lock = OwnerLock(run / ".lock")
    assert lock.acquire()
    with subprocess.Popen(["sleep", "600"]) as mine:
        note_runner(run, mine.pid)
        for path in (run, *run.rglob("*")):
            os.lchown(path, 65534, 65534)
        with pytest.raises(RequestError, match="who could have listed any of your processes in it"):
            Handle(run).cancel()
        assert mine.poll() is None
        monkeypatch.setenv(TRUSTED_USERS, "65534")
        assert Handle(run).cancel()
        assert mine.wait() == -signal.SIGTERM
    lock.release()


def test_a_named_secret_that_stands_for_another_one_is_refused(tmp_path):
    with pytest.raises(RequestError, match=r"'s3/k' stands for .*, which is not a source on this"):
        tarmac.jobs.start_runner(
            tarmac.jobs.JobRun(tmp_path, job("{name: x, command: a}"), tmp_path, ()),
            RunRequest(secrets={"s3/k": Secret(vault_id="https://vault.example/k")}),
        )


@pytest.mark.parametrize("start", [tarmac.submit, tarmac.run])
def test_a_file_is_read_and_recorded_and_its_paths_start_from_it(tmp_path, start):
    file = tmp_path / "job.yaml"
    (tmp_path / "in.txt").write_text("hello")
    file.write_text("{name: x, inputs: [{from: in.txt}], command: cat in.txt}")
    handle = start(file, output=tmp_path / "runs")
    handle.result(timeout=limit_s(120))
    assert handle.stdout() == "hello"
    assert changed_file(handle.path) is None
    file.write_text("{name: x, command: 'true'}")
    assert changed_file(handle.path) == str(file)


def test_named_secrets_come_from_where_they_are_said_to_be(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "pssst-23")
    handle = tarmac.submit(
        job("{name: x, secrets: {KEY: {name: s3, key: k}}, command: 'echo ${#KEY}'}"),
        output=tmp_path,
        secrets={"s3/k": Secret(env="MY_KEY")},
    )
    handle.result(timeout=limit_s(120))
    assert handle.stdout() == "8\n"
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"pssst-23" in content for content in written)


def test_what_cannot_be_done_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(RequestError, match="needs 99 GPUs"):
        tarmac.submit(job("{name: x, command: a, resources: {gpus: 99}}"), output=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_job_goes_on_when_its_submitter_ends(tmp_path):
    script = (
        "import os, tarmac\n"
        "from tarmac.jobs import Job\n"
        f"tarmac.submit(Job(name='x', command=('echo', 'hello')), output={str(tmp_path)!r})\n"
        "os._exit(0)\n"
    )
    assert os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", script) == 0
    handle = tarmac.attach("latest", tmp_path)
    handle.result(timeout=limit_s(120))
    assert Path(handle.path / "runner.log").exists()
    assert handle.stdout() == "hello\n"
