"""Checks of a task's surroundings: its files, variables and secrets, and nothing else."""

from __future__ import annotations

import contextlib
import json
import sys

import psutil

from tarmac.testing.executors.case import VAULT, ExecutorCase, printed, variable


def check_attempts_run_in_their_directory(case: ExecutorCase) -> None:
    """Check that a task runs in ``work``, and its output is in ``stdout`` and ``stderr``."""
    (attempt,), ends = case.finish("{name: x, command: 'pwd; echo bad >&2'}")
    end = ends["x"]
    assert (end.outcome, end.exit_code, end.reason) == ("succeeded", 0, "")
    assert printed(attempt) == f"{attempt.directory / 'work'}\n"
    assert printed(attempt, "stderr") == "bad\n"


def check_tasks_have_only_their_variables_and_secrets(case: ExecutorCase) -> None:
    """Check that only the task that requests a secret has it, and that no file holds it."""
    name, secret = VAULT
    with variable(name, secret):
        (attempt, other), ends = case.finish(
            f"""
            name: x
            tasks:
              - name: x
                env: {{COLOUR: red}}
                secrets: {{TOKEN: {{env: {name}}}}}
                command: case "$COLOUR-$TOKEN" in red-{secret[:5]}?17) echo "$TARMAC_TASK";; esac
              - {{name: other, command: env}}
            """
        )
    assert {end.outcome for end in ends.values()} == {"succeeded"}, ends
    assert printed(attempt) == "x\n"
    seen = printed(other)
    assert "TARMAC_TASK=other" in seen
    assert not [word for word in ("COLOUR=", "TOKEN=", f"{name}=") if word in seen]
    files = (path for path in case.directory.rglob("*") if path.is_file())
    assert not [path for path in files if secret.encode() in path.read_bytes()]


def check_command_lines_have_no_secrets(case: ExecutorCase) -> None:
    """Check that no command line on this machine shows the secret of a running task."""
    name, secret = VAULT
    with variable(name, secret):
        (task,) = case.tasks(
            f"{{name: x, secrets: {{TOKEN: {{env: {name}}}}}, command: 'echo; exec sleep 600'}}"
        )
        attempt = case.attempt(task)
        with case.watched([task]) as watch:
            watch.start([attempt])
            watch.until_printed(attempt)
            shown = [
                process.pid
                for process in psutil.process_iter(["cmdline"])
                if secret in " ".join(process.info["cmdline"] or ())
            ]
    assert not shown, f"command lines of {shown} show the secret"


def check_jobs_inherit_no_engine_variables(case: ExecutorCase) -> None:
    """Check that queued jobs do not inherit engine variables of the runner's own job."""
    outer = {"SLURM_MEM_PER_NODE": "17", "SBATCH_PARTITION": "nowhere", "RAY_ADDRESS": "nowhere"}
    tasks = case.tasks("{name: x, command: env}")
    with contextlib.ExitStack() as stack:
        for name, value in outer.items():
            stack.enter_context(variable(name, value))
        with case.watched(tasks) as watch:
            if not watch.executor.queues:
                return
            attempt = case.attempt(tasks[0])
            watch.start([attempt])
            end = watch.finish([attempt])["x"]
    assert end.outcome == "succeeded", end
    seen = printed(attempt).splitlines()
    assert not [line for line in seen if line in {f"{n}={v}" for n, v in outer.items()}], seen


def check_arguments_and_variables_arrive_unchanged(case: ExecutorCase) -> None:
    """Check that spaces, quotes, commas, newlines and any letters reach a program unchanged."""
    odd = ["a b", "c,d=e;f", "\"g\" 'h' `i` $j \\k", "l\nm\tn", "öß→漢🙂", "", "-n", "%s *?[x]~"]
    show = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['ODD']]))"
    job = {
        "name": "x",
        "command": [sys.executable, "-c", show, *odd],
        "env": {"ODD": "|".join(odd)},
    }
    (attempt,), ends = case.finish(json.dumps(job))
    assert ends["x"].outcome == "succeeded", ends
    assert json.loads(printed(attempt)) == [odd, "|".join(odd)]


def check_inputs_and_outputs_are_staged(case: ExecutorCase) -> None:
    """Check stage in and stage out; a missing output is reported and the others are kept."""
    (case.directory / "in.txt").write_text("hello", encoding="utf-8")
    _, ends = case.finish(
        """
        name: x
        inputs: [{from: in.txt, to: data/a.txt}]
        command: tr a-z A-Z < data/a.txt > out.txt
        outputs: [{path: out.txt, to: kept}, {path: gone.txt, to: kept}]
        """
    )
    assert (case.directory / "kept/out.txt").read_text(encoding="utf-8") == "HELLO"
    assert tuple(ends["x"].problems) == ("output gone.txt: nothing matches",)


def check_tasks_share_files_of_the_run(case: ExecutorCase) -> None:
    """Check that all tasks of a run share ``run:PATH``."""
    tasks = case.tasks(
        """
        name: x
        tasks:
          - {name: a, command: echo hello > out.txt, outputs: [{path: out.txt, to: "run:made"}]}
          - name: b
            command: cat out.txt more/out.txt
            inputs: [{from: "run:made/out.txt"}, {from: "run:made", to: more}]
        """
    )
    first, second = (case.attempt(task) for task in tasks)
    with case.watched(tasks) as watch:
        for attempt in (first, second):
            watch.start([attempt])
            watch.finish([attempt])
        assert watch.ends["b"].outcome == "succeeded", watch.ends
    assert printed(second) == "hello\nhello\n"


def check_retried_attempts_keep_no_outputs(case: ExecutorCase) -> None:
    """Check that an attempt that is retried keeps no outputs."""
    job = """
        name: x
        retries: 1
        command: echo $TARMAC_ATTEMPT > out.txt; exit 1
        outputs: [{path: out.txt, to: kept, when: always}]
        """
    case.finish(job, number=1)
    assert not (case.directory / "kept").exists()
    case.finish(job, number=2)
    assert (case.directory / "kept/out.txt").read_text(encoding="utf-8") == "2\n"


def check_later_attempts_append_to_the_log(case: ExecutorCase) -> None:
    """Check that a later attempt appends to the log of an earlier one."""
    job = "{name: x, command: 'echo $TARMAC_ATTEMPT'}"
    (attempt,), _ = case.finish(job, number=1)
    case.finish(job, number=2)
    assert printed(attempt) == "1\n2\n"
