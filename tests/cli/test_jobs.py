"""What becomes of jobs, from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from concurrent.futures import CancelledError

import pytest
from rich.console import Console

from forked import run_python, start_python
from hostile import each_name
from tarmac import submit
from tarmac.cli.preflight import check_into
from tarmac.cli.views.job import _LiveProgress
from tarmac.cli.views.job_logs import Tail
from tarmac.jobs import Grant, create_run, parse_job, prepare, task_directory
from waiting import limit_s, wait_until


@pytest.fixture
def tarmac(tmp_path):
    """Return a function that runs ``tarmac`` in a directory of its own."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_python("-m", "tarmac", *arguments, cwd=tmp_path)

    return run


def test_a_submitted_job_is_listed_followed_and_ended(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text(
        "{name: x, tasks: [{name: a, command: 'echo hello; sleep 600'}]}"
    )
    done = tarmac("submit", "job.yaml", "--json")
    assert done.returncode == 0, done.stderr
    (made,) = json.loads(done.stdout)
    wait_until(lambda: "hello" in tarmac("logs", "latest").stdout, "the task's output")
    (row,) = json.loads(tarmac("ps", "--json").stdout)
    assert (row["path"], row["state"], row["tasks"][0]["state"]) == (
        made["path"],
        "running",
        "running",
    )
    assert "0/1" in tarmac("ps").stdout
    ended = tarmac("cancel", "latest")
    assert ended.stdout.startswith("ended x-"), ended.stderr
    assert "no job is active in runs" in tarmac("ps").stdout
    assert "interrupted" in tarmac("ps", "--all").stdout
    again = tarmac("cancel", "latest")
    assert (again.returncode, "is not active" in again.stderr) == (2, True)


def test_following_a_job_prints_until_it_ends(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text(
        "{name: x, command: 'for i in 1 2 3; do echo {{ n }}-$i; done', sweep: {grid: {n: [a, b]}}}"
    )
    assert tarmac("submit", "job.yaml").returncode == 0
    printed = tarmac("logs", "latest", "--follow").stdout.splitlines()
    assert sorted(printed) == [f"x[n={n}] | {n}-{i}" for n in "ab" for i in (1, 2, 3)]
    one = tarmac("logs", "latest", "x[n=b]").stdout
    assert one == "b-1\nb-2\nb-3\n"
    wrong = tarmac("logs", "latest", "x[n=c]")
    assert wrong.returncode == 2
    assert "unknown task 'x[n=c]', did you mean" in wrong.stderr


def test_running_with_follow_prints_what_tasks_print(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text("{name: x, command: 'echo one; printf two'}")
    out = tarmac("run", "job.yaml", "--follow").stdout
    assert "             | one\n             | two\n" in out


def test_a_resumed_run_does_not_print_again_what_was_printed_before(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text("{name: x, command: 'echo attempt; test -e ../../../go'}")
    first = tarmac("run", "job.yaml", "--follow")
    assert first.stdout.count("| attempt") == 1
    (run,) = (tmp_path / "runs").iterdir()
    (run / "go").touch()
    again = tarmac("run", "--resume", "latest", "--follow")
    assert again.stdout.count("| attempt") == 1


def test_named_secrets_are_found_through_the_users_configuration(tarmac, tmp_path, monkeypatch):
    (tmp_path / "key").write_text("pssst-31\n")
    (tmp_path / "secrets.toml").write_text(
        f'"s3/k" = {{ file = "{tmp_path}/key" }}\n"https://v/secrets/x" = {{ env = "HOME" }}\n'
    )
    monkeypatch.setenv("TARMAC_SECRETS", str(tmp_path / "secrets.toml"))
    (tmp_path / "job.yaml").write_text(
        '{name: x, command: \'test $A = pssst-31 -a "$B" = "$HOME"\','
        " secrets: {A: {name: s3, key: k}, B: {vault_id: 'https://v/secrets/x'}}}"
    )
    done = tarmac("run", "job.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "secrets.toml").write_text('"s3/k" = "pssst-31"\n')
    wrong = tarmac("run", "job.yaml")
    assert wrong.returncode == 2
    assert "secrets.toml: 's3/k' is not of the form" in wrong.stderr
    assert "pssst" not in wrong.stderr
    (tmp_path / "secrets.toml").write_text("")
    missing = tarmac("run", "job.yaml")
    assert "Name one: --secret s3/k=env:VARIABLE, or a line of" in missing.stderr


def test_a_plan_says_where_each_gpu_would_come_from(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text("{name: x, command: a, resources: {gpus: 1}}")
    plan = tarmac("run", "job.yaml", "--dry-run", "--fake-gpus", "2")
    assert "1 GPU, of fake FAKE-0, fake FAKE-1" in plan.stdout
    (row,) = json.loads(tarmac("run", "job.yaml", "--dry-run", "--fake-gpus", "2", "--json").stdout)
    assert row["gpus_from"] == ["FAKE-0", "FAKE-1"]


def test_a_plan_says_all_that_a_task_gets(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text(
        """
        name: x
        tasks:
          - name: a
            environment:
              {image: img, entrypoint: [/opt/run.sh], user: "7", network: none, workdir: /src}
            command: [train]
            resources: {cpus: 2, shm: 64MiB}
            priority: 5
            timeout: 60
            retries: 2
            env: {MKL_NUM_THREADS: 1}
            inputs: [{from: /data, to: data, include: ["*.pt"], exclude: [tmp]}]
            outputs: [{path: "out/*", to: /kept, exclude: ["*.log"]}]
        after_all: {name: last, command: [echo]}
        """
    )
    plan = tarmac("run", "job.yaml", "--dry-run")
    lines = [line.strip() for line in plan.stdout.splitlines()]
    for line in (
        "a, priority 5",
        "$ /opt/run.sh train",
        "container img, 2 CPUs, at most 60 s, retried 2 times",
        "user 7, network none, workdir /src, shm 64 MiB",
        "OMP_NUM_THREADS=2",
        "MKL_NUM_THREADS=1",
        "/data -> data, only *.pt, without tmp",
        "out/* -> /kept (success), without *.log",
        "last after all others",
    ):
        assert line in lines, plan.stdout
    first, last = json.loads(tarmac("run", "job.yaml", "--dry-run", "--json").stdout)
    assert (first["priority"], first["timeout_s"], first["retries"]["count"]) == (5, 60, 2)
    assert first["env"]["OMP_NUM_THREADS"] == "2"
    assert (first["after_all"], last["after_all"]) == (False, True)


def test_a_task_gets_the_variables_that_its_plan_says(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text("{name: x, command: env, env: {V: 1.10}}")
    (row,) = json.loads(tarmac("run", "job.yaml", "--dry-run", "--json").stdout)
    tarmac("run", "job.yaml")
    got = tarmac("logs", "latest").stdout.splitlines()
    assert row["env"].keys() > {"V", "OMP_NUM_THREADS"}
    assert {f"{name}={value}" for name, value in row["env"].items()} <= {*got}


def test_a_plan_for_programs_says_what_cannot_be_run_here(tarmac, tmp_path):
    (tmp_path / "jobs.yaml").write_text(
        "job_specifications: [{id: j, tasks: [{docker_image: b, command: c,"
        " multi_instance: {num_instances: 2}}]}]"
    )
    done = tarmac("run", "jobs.yaml", "--dry-run", "--json")
    (row,) = json.loads(done.stdout)
    assert any("machines" in refusal for refusal in row["refusals"])
    assert row["notes"]


def test_a_value_in_a_list_is_changed_from_the_command_line(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text("{name: x, tasks: [{name: a, command: b}]}")
    set_to = ("--set", "tasks.0.env.V=1.10", "--set", "tasks.0.priority=3")
    (row,) = json.loads(tarmac("run", "job.yaml", "--dry-run", "--json", *set_to).stdout)
    assert (row["env"]["V"], row["priority"]) == ("1.10", 3)
    wrong = tarmac("run", "job.yaml", "--dry-run", "--set", "tasks.7.priority=3")
    assert wrong.returncode == 2
    assert "--set tasks.7.priority: tasks has 1 parts" in wrong.stderr
    (tmp_path / "jobs.yaml").write_text(
        "job_specifications: [{id: j, tasks: [{docker_image: b, command: c, max_task_retries: 1}]}]"
    )
    set_to = ("--set", "job_specifications.0.tasks.0.max_task_retries=4")
    (row,) = json.loads(tarmac("run", "jobs.yaml", "--dry-run", "--json", *set_to).stdout)
    assert row["retries"]["count"] == 4


def test_a_resumed_run_can_be_planned_and_not_changed(tarmac, tmp_path):
    (tmp_path / "job.yaml").write_text(
        "{name: x, tasks: [{name: a, command: 'true'},"
        " {name: b, command: 'echo >> ../../../../../count; exit 1'}]}"
    )
    assert tarmac("run", "job.yaml").returncode == 1
    plan = tarmac("run", "--resume", "latest", "--dry-run")
    assert (plan.returncode, plan.stderr) == (0, "")
    assert plan.stdout.startswith("x: 1 task\n  b\n")
    (row,) = json.loads(tarmac("run", "--resume", "latest", "--dry-run", "--json").stdout)
    assert row["task"] == "b"
    refused = tarmac("run", "--resume", "latest", "--set", "env.A=1 2")
    assert refused.returncode == 2
    assert "--set cannot be changed in a resumed run" in refused.stderr
    assert "tarmac run FILE --set 'env.A=1 2'" in refused.stderr
    assert (tmp_path / "count").read_text() == "\n"


def test_what_a_look_at_the_devices_found_is_stored_with_a_run(tmp_path):
    check_into(tmp_path, own_python=True, quiet=True)
    report = json.loads((tmp_path / "check.json").read_text())
    assert [verdict["name"] for verdict in report["frameworks"]] == ["torch"]


def test_the_table_on_a_terminal_shows_running_tasks_with_their_last_line(tmp_path):
    job = parse_job("{name: x, command: a, sweep: {grid: {n: [1, 2]}}}")
    run = create_run(job, tmp_path, prepare(job, tmp_path), tmp_path / "runs")
    progress = _LiveProgress(run, Console(), follow=False)
    task = run.tasks[1]
    progress.started(task, 1, Grant(1.0, 0, ("GPU-7",), 1.0))
    directory = task_directory(run.path, task)
    directory.mkdir()
    (directory / "stdout").write_text("first\nloss 0.25\n")
    console = Console(width=100)
    with console.capture() as shown:
        console.print(progress.render())
    lines = shown.get().splitlines()
    assert lines[1].split() == ["x[n=2]", "0", "s", "1", "GPU-7", "loss", "0.25"]
    assert lines[2] == "0 of 2 tasks done"


def test_a_tail_gives_whole_lines_and_the_rest_at_its_end(tmp_path):
    lines: list[str] = []
    tail = Tail(tmp_path / "log", lines.append)
    tail.read()
    (tmp_path / "log").write_bytes(b"one\ntw")
    tail.read()
    assert lines == ["one"]
    with (tmp_path / "log").open("ab") as file:
        file.write(b"o\nthree")
    tail.read()
    tail.close()
    assert lines == ["one", "two", "three"]


def make_runs(tmp_path, *names: str, tasks: int = 1) -> list:
    made = []
    for name in names:
        job = parse_job(f"{{name: {name}, command: a, sweep: {{repeat: {tasks}}}}}")
        made.append(create_run(job, tmp_path, prepare(job, tmp_path), tmp_path / "runs"))
    return made


@pytest.mark.parametrize("damage", ["{torn", "[]", '{"schema_version": 1}'])
def test_a_run_that_is_damaged_is_named_and_hides_no_other(tarmac, tmp_path, damage):
    whole, broken = make_runs(tmp_path, "whole", "broken")
    record = broken.path / "job-run.json"
    record.write_text(damage)
    listed = tarmac("ps", "--all", "--json")
    assert listed.returncode == 0, listed.stderr
    assert [row["name"] for row in json.loads(listed.stdout)] == [whole.path.name]
    assert f"cannot be read: {broken.path}: {record} is damaged: " in listed.stderr
    said = tarmac("logs", broken.path.name)
    assert (said.returncode, f"{broken.path.name}/job-run.json is damaged" in said.stderr) == (
        1,
        True,
    )


def test_a_damaged_line_of_a_journal_is_named_and_the_others_count(tarmac, tmp_path):
    (run,) = make_runs(tmp_path, "x", tasks=2)
    lines = [
        {
            "event": "ended",
            "task": n,
            "name": f"x[repeat={n}]",
            "outcome": "succeeded",
            "exit_code": 0,
            "seconds": 1.0,
            "reason": "",
        }
        for n in (0, 1)
    ]
    text = [json.dumps(lines[0]), '{"event": "ended", "ta', json.dumps(lines[1])]
    (run.path / "journal.jsonl").write_text("\n".join(text) + "\n")
    listed = tarmac("ps", "--all", "--json")
    (row,) = json.loads(listed.stdout)
    assert row["state"] == "succeeded"
    assert f"left out: {run.path}/journal.jsonl:2: the journal is damaged: " in listed.stderr
    assert "journal.jsonl:2" in row["problems"][0]


def test_logs_of_more_tasks_than_files_may_be_open_are_printed(tmp_path):
    (run,) = make_runs(tmp_path, "x", tasks=80)
    for task in run.tasks:
        directory = task_directory(run.path, task)
        directory.mkdir()
        for stream in ("stdout", "stderr"):
            (directory / stream).write_text(f"{stream} of {task.index}\n")
    events = [
        json.dumps({"event": "started", "task": task.index, "name": task.name, "attempt": 1})
        for task in run.tasks
    ]
    (run.path / "journal.jsonl").write_text("\n".join(events) + "\n")
    program = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "sys.argv = ['tarmac', 'logs', 'latest']; runpy.run_module('tarmac', run_name='__main__')\n"
    )
    printed = run_python("-c", program, cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert len(printed.stdout.splitlines()) == 160


def test_a_tail_takes_a_file_in_parts_and_ends_endless_lines(tmp_path):
    with (tmp_path / "log").open("wb") as file:
        file.write(b"first\n")
        file.truncate(5 * 2**20)
    lines: list[str] = []
    tail = Tail(tmp_path / "log", lines.append)
    tail.read()
    tail.close()
    assert lines[0] == "first"
    assert max(map(len, lines)) <= 2**21
    assert sum(map(len, lines)) == 5 * 2**20 - len("first\n") + len("first")


@each_name
def test_a_tail_follows_a_file_of_any_name(tmp_path, name):
    lines: list[str] = []
    (tmp_path / name).write_text("one\n")
    Tail(tmp_path / name, lines.append).read()
    assert lines == ["one"]


def test_ctrl_c_ends_following_and_not_the_job(tmp_path):
    (tmp_path / "job.yaml").write_text("{name: x, command: 'echo hello; sleep 600'}")
    handle = submit(tmp_path / "job.yaml", output=tmp_path / "runs")
    follower = start_python(
        *("-m", "tarmac", "logs", handle.path, "--follow"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert follower.stdout.readline() == "hello\n"
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate()
    assert (follower.returncode, out, err.strip()) == (130, "", "interrupted")
    assert handle.cancel()
    with pytest.raises(CancelledError):
        handle.exception(timeout=limit_s(120))


@each_name
def test_a_run_lies_in_a_directory_of_any_name(tarmac, tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "job.yaml").write_text(
        "{name: x, command: cat in && pwd, inputs: [{from: in}], "
        "outputs: [{path: in, to: kept}, {path: in, to: 'run:shared'}]}"
    )
    (tmp_path / name / "in").write_text("hello\n")
    output = str(tmp_path / name / "runs")
    done = tarmac("run", str(tmp_path / name / "job.yaml"), "--output", output)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / name / "kept/in").read_text() == "hello\n"
    shown = tarmac("logs", "latest", "--output", output).stdout
    assert shown.startswith(f"hello\n{tmp_path}")
    assert name in shown
