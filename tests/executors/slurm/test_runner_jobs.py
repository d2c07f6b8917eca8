"""Runners that are jobs of Slurm's themselves: handed over to, followed by others, and ended."""

from __future__ import annotations

import json
import re
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
from by_commands import (
    WITHIN_S,
    queued_names,
    start,
    wait_for,
    wait_for_lines,
    write_gated,
    write_job,
)

from tarmac.jobs import attach, read_journal

pytestmark = pytest.mark.slurm

# A runner, its tasks and another's end have room on any machine.
CLUSTER = {"cpus": 4}


def test_a_submitted_runs_runner_is_a_job_too(tarmac, on_cluster):
    write_job("{name: x, command: [echo, hello], sweep: {repeat: 3}}")
    (made,) = json.loads(tarmac("submit", "job.yaml", "--on", "slurm", "--json").stdout)
    run = Path(made["path"])
    assert f"JobId={made['runner_job']} " in on_cluster.run(
        "scontrol", "show", "job", made["runner_job"]
    )
    wait_for(
        lambda: json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "succeeded",
        "the run has succeeded",
    )
    wait_for(lambda: not queued_names(on_cluster), "its runner has ended too")
    assert "CANCELLED" not in (run / "runner.log").read_text()


def test_a_run_that_was_let_go_of_is_handed_over_to_a_runner_of_slurms(
    tarmac, on_cluster, tmp_path
):
    write_gated(tmp_path / "gate")
    with start("run", "job.yaml", "--on", "slurm") as running:
        wait_for_lines(tmp_path / "gate.begun", 1)
        running.terminate()
        running.communicate(timeout=WITHIN_S)
    handed = tarmac("run", "--resume", "latest", "--runner", "engine")
    assert handed.returncode == 0, handed.stderr
    again = tarmac("run", "--resume", "latest", "--runner", "engine")
    assert again.returncode == 2
    assert "already" in again.stderr
    (tmp_path / "gate").touch()
    wait_for(
        lambda: json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "succeeded",
        "the run has succeeded",
    )
    assert (tmp_path / "gate.begun").read_text() == "begun\n"


def test_a_runner_whose_time_is_nearly_over_is_followed_by_another(tarmac, on_cluster, tmp_path):
    write_gated(tmp_path / "gate", num=2)
    (made,) = json.loads(tarmac("submit", "job.yaml", "--on", "slurm", "--json").stdout)
    run, first = Path(made["path"]), made["runner_job"]
    wait_for_lines(tmp_path / "gate.begun", 2)
    # As Slurm does before a job's time limit, and at it.
    on_cluster.run("scancel", "--batch", "--signal=USR1", first)
    place = wait_for(
        lambda: (run / "runners" / "2.json").exists() and (run / "runners" / "2.json").read_text(),
        "a successor is queued",
    )
    second = json.loads(place)["place"]
    assert f"afterany:{first}" in on_cluster.run("scontrol", "show", "job", second)
    on_cluster.run("scancel", first)
    wait_for((run / "runners" / "2.begun").exists, "the successor has begun")
    (tmp_path / "gate").touch()
    wait_for(
        lambda: json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "succeeded",
        "the run has succeeded",
    )
    assert (tmp_path / "gate.begun").read_text() == "begun\n" * 2
    wait_for(lambda: not queued_names(on_cluster), "no runner is left")


def test_where_a_named_secret_is_to_be_found_is_known_to_each_runner(tarmac, on_cluster, tmp_path):
    Path("key.txt").write_text("s3cr3t")
    write_job(
        f"""
        name: x
        command: 'touch {tmp_path}/begun; test $TOKEN = s3cr3t || exit 3;
          while ! [ -e {tmp_path}/go ]; do sleep 0.1; done'
        sweep: {{repeat: 2}}
        secrets: {{TOKEN: {{name: s, key: k}}}}
        """
    )
    words = ("--on", "slurm", "--json", "--secret", "s/k=file:key.txt")
    (made,) = json.loads(tarmac("submit", "job.yaml", *words).stdout)
    run, first = Path(made["path"]), made["runner_job"]
    wait_for((tmp_path / "begun").exists, "a task has begun")
    on_cluster.run("scancel", "--batch", "--signal=USR1", first)
    wait_for(
        lambda: (run / "runners" / "2.json").exists() and (run / "runners" / "2.json").read_text(),
        "a successor is queued",
    )
    on_cluster.run("scancel", first)
    wait_for((run / "runners" / "2.begun").exists, "the successor has begun")
    (tmp_path / "go").touch()
    wait_for(
        lambda: json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "succeeded",
        "the run has succeeded",
    )


def test_a_warning_that_comes_before_the_runner_has_begun_is_kept_for_it(
    tarmac, on_cluster, tmp_path
):
    write_gated(tmp_path / "gate")
    setup = f"touch {tmp_path}/set-up; until test -e {tmp_path}/go; do sleep 0.1; done"
    words = ("--on", "slurm", "--json", "--set", f"options.slurm.runner.setup={setup}")
    (made,) = json.loads(tarmac("submit", "job.yaml", *words).stdout)
    run, first = Path(made["path"]), made["runner_job"]
    wait_for((tmp_path / "set-up").exists, "the runner is being set up")
    on_cluster.run("scancel", "--batch", "--signal=USR1", first)
    wait_for((run / "runners" / "1.warned").exists, "the warning is kept")
    assert not (run / "runners" / "1.begun").exists()
    (tmp_path / "go").touch()
    wait_for((run / "runners" / "2.json").exists, "a successor is asked for")
    (tmp_path / "gate").touch()
    wait_for(lambda: not queued_names(on_cluster), "all have ended")
    assert json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "succeeded"


def test_at_the_end_of_its_own_time_a_runner_is_followed_and_nothing_runs_twice(
    tarmac, on_cluster, tmp_path
):
    write_gated(tmp_path / "gate", num=2)
    # The shortest time that Slurm knows: a minute, which it looks at twice a minute.
    words = ("--on", "slurm", "--json", "--set", "options.slurm.runner.time=1m")
    (made,) = json.loads(tarmac("submit", "job.yaml", *words).stdout)
    run = Path(made["path"])
    wait_for_lines(tmp_path / "gate.begun", 2)
    wait_for((run / "runners" / "2.begun").exists, "the successor has begun", within_s=240)
    assert "DUE TO TIME LIMIT" in (run / "runner.log").read_text()
    (tmp_path / "gate").touch()
    wait_for(
        lambda: json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "succeeded",
        "the run has succeeded",
    )
    assert (tmp_path / "gate.begun").read_text() == "begun\n" * 2
    ends = [event for event in read_journal(run / "journal.jsonl") if event["event"] == "ended"]
    assert [(end["outcome"], end["attempts"]) for end in ends] == [("succeeded", 1)] * 2
    wait_for(lambda: not queued_names(on_cluster), "no runner is left")


def test_a_runner_whose_successor_is_refused_works_on_and_says_so(
    tarmac, on_cluster, tmp_path, wrapped
):
    # Its own job and that of its task are taken.
    wrapped(
        "sbatch",
        """
        [ "$(grep -c parsable $CALLS)" -gt 2 ] || exec $REAL "$@"
        echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" >&2
        exit 1
        """,
    )
    write_gated(tmp_path / "gate")
    (made,) = json.loads(tarmac("submit", "job.yaml", "--on", "slurm", "--json").stdout)
    log = Path(made["path"]) / "runner.log"
    wait_for_lines(tmp_path / "gate.begun", 1)
    on_cluster.run("scancel", "--batch", "--signal=USR1", made["runner_job"])
    wait_for(lambda: "the next runner was not submitted" in log.read_text(), "it is said")
    (tmp_path / "gate").touch()
    wait_for(lambda: not queued_names(on_cluster), "the runner has ended")
    assert json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "succeeded"


def test_a_cancelled_run_has_no_runner_that_would_begin_it_again(tarmac, on_cluster):
    # It waits, as it does where the cluster is full.
    options = "{slurm: {runner: {sbatch: [--begin=now+1hour]}}}"
    write_job(f"{{name: x, command: [sleep, '600'], options: {options}}}")
    made = tarmac("submit", "job.yaml", "--on", "slurm", "--json")
    assert made.returncode == 0, made.stderr
    (row,) = json.loads(made.stdout)
    assert json.loads(tarmac("ps", "--json").stdout)[0]["state"] == "queued"
    assert len(queued_names(on_cluster)) == 1
    cancelled = tarmac("cancel", "latest")
    assert cancelled.returncode == 0, cancelled.stderr
    wait_for(lambda: not queued_names(on_cluster), "its runner is not queued any more")
    assert json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "interrupted"
    assert (Path(row["path"]) / "runners" / "1.over").exists()


@pytest.fixture
def listed(tarmac):
    """Return a function that gives what `tarmac ps` says of the only run, as JSON and in lines."""

    def read():
        (row,) = json.loads(tarmac("ps", "--json").stdout)
        return row, tarmac("ps").stdout.splitlines()

    return read


def test_a_runner_that_waits_or_was_cancelled_while_it_waited_is_told_and_is_followed(
    tarmac, on_cluster, listed
):
    options = "{slurm: {runner: {sbatch: [--begin=now+1hour]}}}"
    write_job(f"{{name: x, command: [echo, hello], options: {options}}}")
    (made,) = json.loads(tarmac("submit", "job.yaml", "--on", "slurm", "--json").stdout)
    job, run = made["runner_job"], made["path"]
    row, _ = listed()
    assert row["state"] == "queued"
    assert row["runner_note"].startswith(f"job {job} waits for its begin time")
    on_cluster.run("scancel", job)
    wait_for(lambda: listed()[0]["state"] == "interrupted", "its end is told")
    row, lines = listed()
    assert re.fullmatch(rf"job {job} was cancelled \(CANCELLED.*\)", row["runner_note"])
    assert lines[-3:] == [
        f"{Path(run).name}: the runner's {row['runner_note']}",
        f"  Resume it: tarmac run --resume {run}",
        f"  Cancel it: tarmac cancel {run}",
    ]
    with pytest.raises(CancelledError, match=f"the runner's job {job} was cancelled"):
        attach(run).result(timeout=WITHIN_S)
    resumed = tarmac("run", "--resume", run)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(tarmac("ps", "--json").stdout) == []


def test_a_runner_that_fails_before_it_begins_is_told_and_may_be_put_aside(tarmac, listed):
    write_job("{name: x, command: [echo, hello], options: {slurm: {runner: {setup: exit 3}}}}")
    (made,) = json.loads(tarmac("submit", "job.yaml", "--on", "slurm", "--json").stdout)
    wait_for(lambda: listed()[0]["state"] == "interrupted", "its end is told")
    row, _ = listed()
    assert re.fullmatch(
        rf"job {made['runner_job']} has failed, exit code 3 on n\d \(FAILED\)", row["runner_note"]
    )
    cancelled = tarmac("cancel", "latest")
    assert cancelled.returncode == 0, cancelled.stderr
    assert json.loads(tarmac("ps", "--json").stdout) == []


def test_a_runner_that_slurm_has_queued_again_is_told_to_wait(tarmac, on_cluster, tmp_path, listed):
    write_gated(tmp_path / "gate")
    (made,) = json.loads(tarmac("submit", "job.yaml", "--on", "slurm", "--json").stdout)
    wait_for_lines(tmp_path / "gate.begun", 1)
    # As Slurm does where a node is lost.
    on_cluster.run("scontrol", "requeuehold", made["runner_job"])
    row = wait_for(
        lambda: (row := listed()[0])["runner_note"] and "held" in row["runner_note"] and row,
        "it is told",
    )
    assert row["state"] == "queued"
    on_cluster.run("scontrol", "release", made["runner_job"])
    # Else it would wait for two minutes.
    on_cluster.run("scontrol", "update", f"JobId={made['runner_job']}", "StartTime=now")
    (tmp_path / "gate").touch()
    wait_for(lambda: not queued_names(on_cluster), "the runner goes on, and ends")
    assert json.loads(tarmac("ps", "--all", "--json").stdout)[0]["state"] == "succeeded"
    assert (tmp_path / "gate.begun").read_text() == "begun\n"


def test_a_slurm_that_does_not_answer_says_nothing_of_a_runner(tarmac, listed, wrapped):
    options = "{slurm: {runner: {sbatch: [--begin=now+1hour]}}}"
    write_job(f"{{name: x, command: [echo, hello], options: {options}}}")
    assert tarmac("submit", "job.yaml", "--on", "slurm").returncode == 0
    wrapped("squeue", "exit 0")
    row, _ = listed()
    assert row["state"] == "queued"
    # It stands for all runs that are listed, so it names the job of none.
    message = "job cannot be queried, Slurm does not answer: squeue: printed nothing"
    assert row["runner_note"] == message


def test_a_runner_that_slurm_does_not_say_the_end_of_is_not_said_to_have_failed(
    tarmac, listed, wrapped
):
    options = "{slurm: {runner: {sbatch: [--begin=now+1hour]}}}"
    write_job(f"{{name: x, command: [echo, hello], options: {options}}}")
    (made,) = json.loads(tarmac("submit", "job.yaml", "--on", "slurm", "--json").stdout)
    # Accounts are late at times: here squeue does not show it any more, and its end is not known.
    wrapped("squeue", '$REAL "$@" | head -1')
    row, _ = listed()
    assert row["runner_note"] == f"job {made['runner_job']} has left Slurm's queue (PENDING)"


@pytest.mark.parametrize(
    ("num", "option", "memory"),
    [(3, "", "257M"), (20_000, "", "315M"), (3, ", memory: 1500M", "1431M")],
)
def test_a_runner_asks_for_memory_by_the_number_of_tasks_or_as_it_is_told(
    tarmac, on_cluster, num, option, memory
):
    options = f"{{slurm: {{runner: {{sbatch: [--begin=now+1hour]{option}}}}}}}"
    write_job(f"{{name: x, command: [a], sweep: {{repeat: {num}}}, options: {options}}}")
    made = tarmac("submit", "job.yaml", "--on", "slurm")
    assert made.returncode == 0, made.stderr
    assert on_cluster.run("squeue", "-h", "-o", "%m").split() == [memory]


def test_a_runner_is_no_job_where_a_secret_is_not_to_be_had(tarmac, monkeypatch):
    monkeypatch.setenv("TOKEN_OF_TESTS", "s3cr3t")
    write_job("{name: x, command: 'exit 1', secrets: {TOKEN: {env: TOKEN_OF_TESTS}}}")
    failed = tarmac("run", "job.yaml", "--on", "slurm")
    assert failed.returncode == 1, failed.stderr
    monkeypatch.delenv("TOKEN_OF_TESTS")
    refused = tarmac("run", "--resume", "latest", "--runner", "engine")
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        "error: secret for TOKEN: the variable TOKEN_OF_TESTS is not set",
    ]
