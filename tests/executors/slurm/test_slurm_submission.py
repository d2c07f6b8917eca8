"""Every attempt goes to Slurm once, whatever sbatch, squeue and the controller answer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tarmac.jobs import Began, Waiting

pytestmark = pytest.mark.slurm

SETTINGS = ("MaxArraySize=11",)
CLUSTER = {"cpus": 8}

# Writes a line for each time that it was run.
COUNTED = """
    name: x
    resources: {cpus: 0.1}
    sweep: {repeat: 3}
    command: 'echo $TARMAC_TASK_INDEX >> ../../../../seen'
    """


def lines_of(path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_chunk_that_was_accepted_without_an_answer_is_not_submitted_twice(runs, wrapped):
    calls = wrapped(
        "sbatch",
        """
        $REAL "$@" > /dev/null
        echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv" >&2
        exit 1
        """,
    )
    progress = runs(COUNTED)
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    assert sorted(runs.lines("seen")) == ["0", "1", "2"]
    assert len(lines_of(calls)) == 1


def test_a_chunk_that_was_not_accepted_is_submitted_again(runs, wrapped):
    calls = wrapped(
        "sbatch",
        """
        if [ "$(wc -l < $CALLS)" = 1 ]; then
          echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv" >&2
          exit 1
        fi
        exec $REAL "$@"
        """,
    )
    progress = runs(COUNTED)
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    assert sorted(runs.lines("seen")) == ["0", "1", "2"]
    assert len(lines_of(calls)) == 2


def test_a_notice_before_the_id_does_not_matter(runs, wrapped):
    wrapped("sbatch", 'echo "Welcome! 7 jobs of yours have 12 hours left."; exec $REAL "$@"')
    progress = runs(COUNTED)
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}


@pytest.mark.parametrize(
    "answer",
    ["exit 0", "echo '<html>busy</html>'", "echo 'slurm_load_jobs error: ...' >&2; exit 1"],
)
def test_a_queue_that_does_not_answer_changes_nothing_and_is_told(runs, wrapped, answer):
    calls = wrapped(
        "squeue", f'if [ "$(wc -l < $CALLS)" = 1 ]; then {answer}; else exec $REAL "$@"; fi'
    )
    ended: set[str] = set()

    def act(progress) -> None:
        ended.update(progress.ends)
        if len(lines_of(calls)) > 1:
            runs.wrote("go").touch()

    progress = runs(
        """
        name: x
        resources: {cpus: 0.1}
        tasks:
          - {name: one, command: 'until [ -e ../../../../go ]; do sleep 0.1; done'}
          - {name: never, command: [sleep, '600'], resources: {cpus: 8, gpus: 2}}
        """,
        act,
        stop=lambda: "one" in ended and len(lines_of(calls)) > 2,
    )
    assert progress.ends["one"].outcome == "succeeded"
    assert progress.ends["never"].outcome == "interrupted"
    assert {end.attempts for end in progress.ends.values()} == {1}
    assert any("squeue: " in event.reason for event in progress.of(Waiting))


def test_a_job_of_more_tasks_than_an_array_may_have_goes_in_several(runs, wrapped):
    calls = wrapped("sbatch", 'exec $REAL "$@"')
    progress = runs(COUNTED.replace("repeat: 3", "repeat: 25"))
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    assert sorted(map(int, runs.lines("seen"))) == [*range(25)]
    assert len(lines_of(calls)) == 3


def test_a_site_that_lets_a_user_have_a_few_jobs_gets_no_more(runs, wrapped):
    # sbatch answers so where a limit of the user's association is reached (MaxSubmitJobs).
    calls = wrapped(
        "sbatch",
        """
        script=$(cat)
        asked=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' <<< "$script")
        held=$(squeue -h -r | wc -l)
        if [ $((held + ${asked:-0} + 1)) -gt 4 ]; then
          echo "sbatch: error: AssocMaxSubmitJobLimit" >&2
          echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" >&2
          exit 1
        fi
        exec $REAL "$@" <<< "$script"
        """,
    )
    progress = runs(COUNTED.replace("repeat: 3", "repeat: 12"))
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    assert sorted(map(int, runs.lines("seen"))) == [*range(12)]
    assert any("AssocMaxSubmitJobLimit" in event.reason for event in progress.of(Waiting))
    assert len(lines_of(calls)) <= 12


def test_several_short_tasks_share_a_job(runs, wrapped):
    calls = wrapped("sbatch", 'cat > "$CALLS.script"; exec $REAL "$@" < "$CALLS.script"')
    job = COUNTED.replace("{repeat: 3}", "{repeat: 9}\n    options: {slurm: {per_job: 4}}")
    progress = runs(job)
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    assert sorted(map(int, runs.lines("seen"))) == [*range(9)]
    assert len(lines_of(calls)) == 1
    assert "#SBATCH --array=0-2" in calls.with_name("sbatch.calls.script").read_text()


def test_no_more_run_at_once_than_was_asked_for(runs):
    job = """
        name: x
        resources: {cpus: 0.1}
        sweep: {repeat: 6}
        command: |
          cd ../../../..
          touch now-$$
          ls | grep -c now- >> seen
          sleep 0.3
          rm now-$$
        """
    progress = runs(job, concurrency=2)
    assert {end.outcome for end in progress.ends.values()} == {"succeeded"}
    assert max(map(int, runs.lines("seen"))) <= 2


def test_a_run_goes_on_after_its_runner_was_killed_and_no_task_runs_twice(
    on_cluster, tmp_path, monkeypatch
):
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / "runs"))
    job = tmp_path / "job.yaml"
    job.write_text(
        f"""
        name: x
        resources: {{cpus: 3}}
        sweep: {{repeat: 8}}
        command: |
          cd {tmp_path}
          echo $TARMAC_TASK_INDEX >> seen
          until [ -e go ]; do sleep 0.1; done
        """
    )
    tarmac = [sys.executable, "-m", "tarmac"]
    runner = subprocess.Popen([*tarmac, "run", str(job), "--on", "slurm"])
    try:
        on_cluster.wait_until(
            lambda: len(lines_of(tmp_path / "seen")) == 4, "four tasks are at work"
        )
    finally:
        runner.kill()
        runner.wait()
    (tmp_path / "go").touch()
    done = subprocess.run([*tarmac, "run", "--resume", "latest"], check=False)
    assert done.returncode == 0
    assert sorted(map(int, lines_of(tmp_path / "seen"))) == [*range(8)]


@pytest.mark.parametrize("reaches_slurm", [False, True])
def test_a_run_goes_on_whose_runner_was_killed_while_it_submitted(
    on_cluster, wrapped, tmp_path, monkeypatch, reaches_slurm
):
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path / "runs"))
    submit = '$REAL "$@" > /dev/null' if reaches_slurm else "true"
    calls = wrapped(
        "sbatch",
        f"""
        if [ "$(grep -vc test-only $CALLS)" = 1 ] && [[ "$*" != *test-only* ]]; then
          {submit}
          kill -9 $PPID
          exit 1
        fi
        exec $REAL "$@"
        """,
    )
    job = tmp_path / "job.yaml"
    job.write_text(
        f"""
        name: x
        resources: {{cpus: 0.1}}
        sweep: {{repeat: 3}}
        command: echo $TARMAC_TASK_INDEX >> {tmp_path}/seen
        """
    )
    tarmac = [sys.executable, "-m", "tarmac"]
    killed = subprocess.run([*tarmac, "run", str(job), "--on", "slurm"], check=False)
    assert killed.returncode == -9
    done = subprocess.run(
        [*tarmac, "run", "--resume", "latest"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(lines_of(tmp_path / "seen")) == ["0", "1", "2"]
    submissions = [line for line in lines_of(calls) if "test-only" not in line]
    assert len(submissions) == (1 if reaches_slurm else 2)


def test_a_run_that_is_let_go_is_taken_up_again(runs):
    job = """
        name: x
        resources: {cpus: 0.1}
        sweep: {repeat: 3}
        command: |
          cd ../../../..
          echo $TARMAC_TASK_INDEX >> seen
          until [ -e go ]; do sleep 0.1; done
        """
    first = runs(job, detach=lambda: len(runs.lines("seen")) == 3)
    assert not first.ends
    runs.wrote("go").touch()
    second = runs(job)
    assert {end.outcome for end in second.ends.values()} == {"succeeded"}
    assert {end.attempts for end in second.ends.values()} == {1}
    assert sorted(runs.lines("seen")) == ["0", "1", "2"]
    assert len(second.of(Began)) == 3


def test_a_job_whose_first_tasks_all_fail_alike_is_stopped(runs):
    progress = runs(
        """
        name: x
        resources: {cpus: 0.1}
        sweep: {repeat: 200}
        command: exit 7
        """
    )
    ends = progress.ends.values()
    assert {end.outcome for end in ends} == {"failed", "interrupted"}
    reasons = {end.reason for end in ends if end.outcome == "interrupted" and not end.exit_code}
    assert (
        "not started: the first attempts have all failed alike: exit code 7 (--keep-going starts "
        "the others too)"
    ) in reasons
    assert sum(end.outcome == "failed" for end in ends) < 200


def test_a_job_whose_first_tasks_all_fail_alike_goes_on_where_that_is_asked_for(runs):
    progress = runs(
        """
        name: x
        resources: {cpus: 0.1}
        sweep: {repeat: 130}
        command: exit 7
        options: {slurm: {per_job: 13}}
        """,
        keep_going=True,
    )
    assert {(end.outcome, end.exit_code) for end in progress.ends.values()} == {("failed", 7)}
