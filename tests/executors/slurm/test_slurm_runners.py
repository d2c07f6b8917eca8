"""Runners as jobs of Slurm's: what sbatch gets for one, and what recorded answers say of it."""

from __future__ import annotations

import os
import signal
import subprocess
from datetime import UTC, datetime

import pytest

from recorded_slurm import CONFIG, HEADER, RecordedSlurm
from tarmac.errors import RequestError, TarmacError
from tarmac.executors.queueing import ChunkFiles, ClusterId, job_label, run_code
from tarmac.executors.runners import RunnerJob
from tarmac.executors.slurm import runners as module
from tarmac.executors.slurm.runners import SlurmRunners
from waiting import wait_until

SINCE = datetime(2026, 11, 22, 9, tzinfo=UTC)
TIMED_OUT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    slurm = RecordedSlurm(tmp_path)
    monkeypatch.setenv("PATH", slurm.variables["PATH"])
    monkeypatch.setenv("TARMAC_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(module, "_LOOK_AFTER_S", (0.0, 0.0))
    return slurm


@pytest.fixture
def run(tmp_path):
    run = tmp_path / "x-20261122-090000-abc"
    run.mkdir()
    return run


@pytest.fixture
def job_of(run):
    def make(**changes) -> RunnerJob:
        values = {
            "run": run,
            "number": 2,
            "num_tasks": 1000,
            "command": ["tarmac", "run", "--resume", "a b"],
            "variables": {"COLOUR": "red"},
            "options": {"partition": "main", "account": "a", "time": "1h", "setup": ["ml cuda"]},
            "warned": run / "2.warned",
        }
        return RunnerJob(**{**values, **changes})

    return make


def test_a_runner_is_a_job_of_little_memory_that_is_warned_and_follows_another(
    recorded, job_of, run
):
    options = {"partition": "main", "qos": "q", "time": "1h", "runner": {"qos": "long"}}
    assert SlurmRunners().submit(job_of(options=options, after="79")) == "80"
    lines = recorded.sent().splitlines()
    assert f"#SBATCH --job-name=x-{run_code(run)}-runner-2" in lines
    assert "#SBATCH --partition=main" in lines
    assert "#SBATCH --qos=long" in lines
    assert "#SBATCH --signal=B:USR1@120" in lines
    assert "#SBATCH --dependency=afterany:79" in lines
    # 256 MiB, and 3 KiB for each task.
    assert "#SBATCH --mem=259M" in lines
    # The tasks' own time is not the runner's.
    assert not [line for line in lines if line.startswith("#SBATCH --time")]
    more = {"runner": {"memory": "1 GiB", "time": "2h", "sbatch": "--licenses=x"}}
    SlurmRunners().submit(job_of(options=more))
    lines = recorded.sent().splitlines()
    assert {"#SBATCH --mem=1024M", "#SBATCH --licenses=x"} <= {*lines}
    assert [line for line in lines if line.startswith("#SBATCH --time")]
    assert not [line for line in lines if "--dependency" in line]


def test_secrets_lie_in_the_spool_until_the_runner_is_cancelled(recorded, job_of, run):
    runners = SlurmRunners()
    assert runners.secrets(run) == {}
    runners.submit(job_of(secrets={"TOKEN": "hunter2hunter2"}))
    assert runners.secrets(run) == {"TOKEN": "hunter2hunter2"}
    assert "hunter2" not in recorded.sent()
    runners.cancel(run, [1, 2])
    assert runners.secrets(run) == {}
    name = f"x-{run_code(run)}-runner"
    (first, _, third, _) = recorded.calls("scancel")
    assert (first.split("=")[-1], third.split("=")[-1]) == (f"{name}-1", f"{name}-2")


def test_a_refused_runner_leaves_no_secret_unless_another_still_needs_it(recorded, job_of, run):
    recorded.answer("sbatch", err="sbatch: error: invalid partition specified: main", code=1)
    runners = SlurmRunners()
    with pytest.raises(TarmacError, match="Slurm refuses the runner: ") as refused:
        runners.submit(job_of(secrets={"TOKEN": "x"}))
    assert "--runner here" in refused.value.hint
    assert runners.secrets(run) == {}
    with pytest.raises(TarmacError, match="Slurm refuses the runner: "):
        runners.submit(job_of(secrets={"TOKEN": "x"}, after="79"))
    assert runners.secrets(run) == {"TOKEN": "x"}


def test_a_runner_whose_submission_was_not_answered_is_looked_for_and_then_submitted(
    recorded, job_of, run
):
    recorded.answer("sbatch", err=TIMED_OUT, code=1)
    name = f"{job_label(run)}-{run_code(run)}-runner-2"
    recorded.answer("squeue", f"{HEADER}tarmac|91|{name}|PENDING||Priority\n")
    assert SlurmRunners().submit(job_of()) == "91"
    assert len(recorded.calls("sbatch")) == 1
    recorded.answer("squeue", HEADER)
    with pytest.raises(TarmacError, match="does not say whether it has the runner") as silent:
        SlurmRunners().submit(job_of())
    assert silent.value.hint == f"Look for it: squeue --name={name}"
    assert len(recorded.calls("sbatch")) == 3
    recorded.answer("squeue", err="busy", code=1)
    with pytest.raises(TarmacError, match="does not say whether it has the runner"):
        SlurmRunners().submit(job_of())
    # Where it may be there, it is not submitted again.
    assert len(recorded.calls("sbatch")) == 1


def test_a_runner_is_not_submitted_where_its_tasks_are_on_another_cluster(recorded, job_of, run):
    files = ChunkFiles(run)
    record = files.make({}, [(0, 1)], 1)
    files.write(record.model_copy(update={"cluster": ClusterId("other", "other@a:1")}))
    with pytest.raises(RequestError, match="are on the Slurm cluster other, and this is tarmac"):
        SlurmRunners().submit(job_of())
    moved = ClusterId("tarmac", "tarmac@old:6817")
    files.write(record.model_copy(update={"cluster": moved}))
    with pytest.raises(RequestError, match=r"tarmac \(old:6817\), and this is tarmac"):
        SlurmRunners().submit(job_of())
    recorded.answer("squeue", f"{HEADER}tarmac|90_0|{record.name}|RUNNING|n1|None\n")
    assert SlurmRunners().submit(job_of()) == "80"


@pytest.mark.parametrize(
    ("state", "kind", "words"),
    [
        ("PENDING||Priority", "waits", "job 80 waits for its turn (Priority)"),
        ("SUSPENDED|n1|None", "waits", "job 80 is suspended by Slurm"),
        ("RUNNING|n1|None", "runs", "job 80 runs on n1"),
        ("COMPLETING|n1|None", "runs", "job 80 runs on n1"),
    ],
)
def test_a_queued_runner_waits_or_runs(recorded, run, state, kind, words):
    name = f"{job_label(run)}-{run_code(run)}-runner-1"
    recorded.answer("squeue", f"{HEADER}tarmac|80|{name}|{state}\n")
    found = SlurmRunners().look(run, 1, "80", SINCE)
    assert found.kind == kind
    assert found.words.startswith(words)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("COMPLETED ExitCode=0:0", "has ended on n1 (COMPLETED)"),
        ("FAILED ExitCode=3:0", "has failed, exit code 3 on n1 (FAILED)"),
        ("FAILED ExitCode=0:9", "has failed, ended by signal 9 on n1 (FAILED)"),
        ("TIMEOUT ExitCode=0:0", "was ended at its time limit on n1 (TIMEOUT)"),
        ("NODE_FAIL ExitCode=0:0", "was lost with its node on n1 (NODE_FAIL)"),
        ("SPECIAL ExitCode=0:0", "has left Slurm's queue on n1 (SPECIAL)"),
    ],
)
def test_how_a_runner_has_ended_is_said(recorded, run, said, words):
    recorded.answer(
        "scontrol --oneliner show job", f"JobId=80 JobName=x JobState={said} NodeList=n1\n"
    )
    found = SlurmRunners().look(run, 1, "80", SINCE)
    assert (found.kind, found.words) == ("ended", f"job 80 {words}")


def test_a_runner_that_slurm_does_not_know_has_ended_and_silence_is_no_end(recorded, run):
    gone = "slurm_load_jobs error: Invalid job id specified"
    recorded.answer("scontrol --oneliner show job", err=gone, code=1)
    found = SlurmRunners().look(run, 1, "80", SINCE)
    assert (found.kind, found.words) == ("ended", "job 80 is no longer known to Slurm")
    recorded.answer("scontrol --oneliner show job", err="busy", code=1)
    silent = SlurmRunners().look(run, 1, "80", SINCE)
    assert silent.kind == "unknown"
    assert silent.words.endswith("Slurm does not answer: scontrol: busy (exit code 1)")
    recorded.answer("squeue", "")
    assert "squeue: printed nothing" in SlurmRunners().look(run, 1, "80", SINCE).words


def test_the_scripts_shell_keeps_slurms_warning_and_gives_the_runners_exit_code(
    recorded, job_of, run
):
    go = run / "go"
    os.mkfifo(go)
    (run / "2.warned").touch()
    # What the setup has set reaches the runner.
    options = {"setup": [f"read line < '{go}'", "export CODE=7"]}
    SlurmRunners().submit(job_of(command=["sh", "-c", "exit $CODE"], options=options))
    with subprocess.Popen(["sh", "-c", recorded.sent()], cwd=run) as script:
        with go.open("w") as line:
            # The setup reads by now: the traps are there.
            assert not (run / "2.warned").exists()
            script.send_signal(signal.SIGUSR1)
            wait_until((run / "2.warned").exists, "the warning is kept")
            line.write("go\n")
        assert script.wait(60) == 7


def test_a_cluster_that_does_not_say_which_it_is_stops_no_runner(recorded, job_of, run):
    files = ChunkFiles(run)
    record = files.make({}, [(0, 1)], 1)
    files.write(record.model_copy(update={"cluster": ClusterId("other", "other@a:1")}))
    recorded.answer("scontrol show config", CONFIG.replace("ClusterName", "Name"))
    assert SlurmRunners().submit(job_of()) == "80"
