"""What every executor does. A new one joins by a line in `EXECUTORS`."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from tarmac.errors import RequestError
from tarmac.jobs import parse_job, plan_tasks
from tarmac.jobs.executors import Attempt, Busy, LocalExecutor
from tarmac.jobs.machine import read_machine
from tarmac.jobs.scheduler import run_tasks


def local(base: Path) -> LocalExecutor:
    return LocalExecutor(read_machine(), base, base / "shared", secret_variables={"VAULT"})


def quick(base: Path) -> LocalExecutor:
    """Grants little time to what is asked to end."""
    return LocalExecutor(read_machine(), base, base / "shared", grace_s=0.1)


EXECUTORS = {"local": local}


@pytest.fixture(params=EXECUTORS)
def executor(request, tmp_path):
    with contextlib.closing(EXECUTORS[request.param](tmp_path)) as opened:
        yield opened


@pytest.fixture
def attempts(tmp_path):
    """Return a function that makes first attempts of a job's tasks."""

    def make(text: str, number: int = 1) -> list[Attempt]:
        job = parse_job(textwrap.dedent(text))
        return [
            Attempt(task, number, tmp_path / f"attempt-{task.index}")
            for task in plan_tasks(job, tmp_path)
        ]

    return make


def finish(executor, attempts):
    """Start attempts as there is room, and return how each ended, by its task's name."""
    left, ends = [*attempts], {}
    while len(ends) < len(attempts):
        while left and not isinstance(executor.start(left[0]), Busy):
            left.pop(0)
        for finished in executor.wait(60):
            assert finished.attempt.task.name not in ends
            ends[finished.attempt.task.name] = finished
    return ends


def test_an_attempt_runs_in_its_directory_and_leaves_what_it_prints(executor, attempts):
    (attempt,) = attempts("{name: x, command: 'pwd; echo bad >&2'}")
    end = finish(executor, [attempt])["x"]
    assert (end.outcome, end.exit_code, end.reason) == ("succeeded", 0, "")
    assert (attempt.directory / "stdout").read_text() == f"{attempt.directory / 'work'}\n"
    assert (attempt.directory / "stderr").read_text() == "bad\n"


@pytest.mark.parametrize(
    ("command", "exit_code", "reason"),
    [
        ("exit 3", 3, "exit code 3"),
        ("kill -SEGV $$", -11, "signal 11"),
        ("[no-such-program]", None, "no-such-program: No such file or directory"),
    ],
)
def test_a_failure_is_a_result_and_no_exception(executor, attempts, command, exit_code, reason):
    command = command if command.startswith("[") else f"'{command}'"
    end = finish(executor, attempts(f"{{name: x, command: {command}}}"))["x"]
    assert (end.outcome, end.exit_code, end.reason) == ("failed", exit_code, reason)


def test_a_task_sees_its_variables_and_its_secrets_and_only_it_sees_those(
    executor, attempts, tmp_path, monkeypatch
):
    monkeypatch.setenv("VAULT", "pssst-17")
    attempt, other = attempts(
        """
        name: x
        tasks:
          - name: x
            env: {COLOUR: red}
            secrets: {TOKEN: {env: VAULT}}
            command: 'test "$COLOUR-$TOKEN" = red-pssst-17 && echo "$TARMAC_TASK $OMP_NUM_THREADS"'
          - {name: other, command: env}
        """
    )
    ends = finish(executor, [attempt, other])
    assert [end.outcome for end in ends.values()] == ["succeeded"] * 2
    assert (attempt.directory / "stdout").read_text() == "x 1\n"
    seen = (other.directory / "stdout").read_text()
    assert "TARMAC_TASK=other" in seen
    assert not [word for word in ("COLOUR=", "TOKEN=", "VAULT=") if word in seen]
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"pssst-17" in content for content in written)


def test_inputs_are_brought_and_outputs_kept(executor, attempts, tmp_path):
    (tmp_path / "in.txt").write_text("hello")
    end = finish(
        executor,
        attempts(
            """
            name: x
            inputs: [{from: in.txt, to: data/a.txt}]
            command: tr a-z A-Z < data/a.txt > out.txt
            outputs: [{path: out.txt, to: kept}, {path: gone.txt, to: kept}]
            """
        ),
    )["x"]
    assert (tmp_path / "kept/out.txt").read_text() == "HELLO"
    assert end.problems == ("output gone.txt: nothing matches",)


def test_what_a_task_keeps_in_the_run_is_there_for_the_next(executor, attempts):
    first, second = attempts(
        """
        name: x
        tasks:
          - {name: a, command: echo hello > out.txt, outputs: [{path: out.txt, to: "run:made"}]}
          - name: b
            command: cat out.txt more/out.txt
            inputs: [{from: "run:made/out.txt"}, {from: "run:made", to: more}]
        """
    )
    finish(executor, [first])
    assert finish(executor, [second])["b"].outcome == "succeeded"
    assert (second.directory / "stdout").read_text() == "hello\nhello\n"


def test_outputs_of_an_attempt_that_is_followed_by_another_are_not_kept(
    executor, attempts, tmp_path
):
    job = """
        name: x
        retries: 1
        command: echo $TARMAC_ATTEMPT > out.txt; exit 1
        outputs: [{path: out.txt, to: kept, when: always}]
        """
    finish(executor, attempts(job, number=1))
    assert not (tmp_path / "kept").exists()
    finish(executor, attempts(job, number=2))
    assert (tmp_path / "kept/out.txt").read_text() == "2\n"


def test_a_later_attempt_adds_to_what_an_earlier_one_printed(executor, attempts):
    job = "{name: x, command: 'echo $TARMAC_ATTEMPT'}"
    (first,) = attempts(job, number=1)
    finish(executor, [first])
    finish(executor, attempts(job, number=2))
    assert (first.directory / "stdout").read_text() == "1\n2\n"


def test_a_time_limit_is_kept(executor, attempts):
    end = finish(executor, attempts("{name: x, command: [sleep, '600'], timeout: 0.2}"))["x"]
    assert (end.outcome, end.reason) == ("failed", "its time limit of 0.2 s")


def test_stopping_interrupts_all_that_runs_and_leaves_no_process(executor, attempts):
    (attempt,) = attempts("{name: x, command: 'sleep 600 & echo $!; wait'}")
    assert not isinstance(executor.start(attempt), Busy)
    printed = attempt.directory / "stdout"
    while not (printed.exists() and printed.read_text()):
        executor.wait(0.02)
    executor.stop()
    (end,) = executor.wait(60)
    assert end.outcome == "interrupted"
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(printed.read_text())).wait(60)
    assert executor.wait(0) == []


@pytest.mark.parametrize(
    "needs",
    [
        "inputs: [{{from: '{url}'}}]",
        "environment: {{requirements: ['six @ {url}/six-1.0-py3-none-any.whl']}}",
    ],
    ids=["download", "installer"],
)
def test_stopping_ends_a_preparation_with_all_that_it_has_started(
    executor, attempts, slow_server, trace, needs
):
    needs = needs.format(url=slow_server.url)
    (attempt,) = attempts(f"{{name: x, command: 'true', {needs}}}")
    assert not isinstance(executor.start(attempt), Busy)
    assert slow_server.begun.wait(120)
    started = trace.processes()
    executor.stop()
    (end,) = executor.wait(60)
    assert (end.outcome, end.reason) == ("interrupted", "the run was stopped")
    executor.close()
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not alive
    assert not trace.processes()


def test_stopping_forgets_preparations_that_have_not_begun(executor, attempts, slow_server):
    text = "{name: x, command: 'true', sweep: {repeat: 9}, resources: {cpus: 0.01}, "
    every = attempts(text + f"inputs: [{{from: '{slow_server.url}'}}]}}")
    for attempt in every:
        assert not isinstance(executor.start(attempt), Busy)
    assert slow_server.begun.wait(60)
    executor.stop()
    ends = []
    while len(ends) < len(every):
        ends += executor.wait(60)
    assert {end.outcome for end in ends} == {"interrupted"}


def test_outputs_that_do_not_get_through_are_given_up_when_the_run_is_stopped(
    tmp_path, attempts, slow_server, monkeypatch
):
    pytest.importorskip("obstore", reason="needs pip install 'tarmac[objects]'")
    monkeypatch.setenv("AWS_ENDPOINT_URL", slow_server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    (attempt,) = attempts(
        "{name: x, command: echo > out, outputs: [{path: out, to: 's3://bucket/made'}]}"
    )
    with contextlib.closing(quick(tmp_path)) as local:
        assert not isinstance(local.start(attempt), Busy)
        while not slow_server.begun.is_set():
            assert local.wait(0.05) == []
        local.stop()
        (end,) = local.wait(60)
    assert (end.outcome, end.exit_code) == ("interrupted", 0)
    assert end.reason == "the run was stopped before its outputs were kept"


@pytest.mark.parametrize("gone", ['"$PWD"', '"${PWD%/work}"'])
def test_a_task_that_takes_its_directory_away_has_failed_and_others_go_on(executor, attempts, gone):
    ends = finish(
        executor,
        attempts(
            f"""
            name: x
            resources: {{cpus: 0.01}}
            tasks:
              - {{name: gone, command: 'rm -rf {gone}; exit 4'}}
              - {{name: other, command: 'true'}}
            """
        ),
    )
    assert (ends["gone"].outcome, ends["gone"].reason) == ("failed", "exit code 4")
    assert ends["other"].outcome == "succeeded"


def test_a_stop_after_the_end_of_a_program_leaves_it_its_success(executor, attempts):
    (attempt,) = attempts("{name: x, command: 'echo $$'}")
    assert not isinstance(executor.start(attempt), Busy)
    printed = attempt.directory / "stdout"
    while not printed.read_text():
        pass
    # Its own parent waits for it, so it is there until the executor looks.
    while psutil.Process(int(printed.read_text())).status() != psutil.STATUS_ZOMBIE:
        pass
    executor.stop()
    (end,) = executor.wait(60)
    assert end.outcome == "succeeded"


def test_waiting_returns_when_patience_ends(executor, attempts):
    (attempt,) = attempts("{name: x, command: [sleep, '600']}")
    assert not isinstance(executor.start(attempt), Busy)
    assert executor.wait(0.05) == []
    executor.stop()
    (end,) = executor.wait(60)
    assert end.outcome == "interrupted"


def test_what_can_never_run_is_refused(executor, attempts):
    tasks = [attempt.task for attempt in attempts("{name: x, command: a, resources: {gpus: 64}}")]
    with pytest.raises(RequestError, match="task 'x' needs 64 GPUs"):
        executor.refuse(tasks)


def test_a_graph_of_tasks_goes_through(executor, attempts, tmp_path):
    job = parse_job(
        f"""
        name: x
        tasks:
          - {{name: top, command: echo top >> {tmp_path}/log}}
          - {{name: side, needs: [top], sweep: {{repeat: 6}}, command: [{sys.executable}, -c, ""]}}
          - {{name: broken, needs: [top], command: [false]}}
          - {{name: after, needs: [broken], command: [true]}}
          - {{name: bottom, needs: [side], command: echo bottom >> {tmp_path}/log}}
        after_all: {{name: last, command: echo last >> {tmp_path}/log}}
        """.replace("[false]", '["false"]').replace("[true]", '["true"]')
    )

    class Silent:
        def started(self, *_: object) -> None: ...
        def waited(self) -> None: ...
        def retrying(self, *_: object) -> None: ...
        def ended(self, *_: object) -> None: ...

    (tmp_path / "run/tasks").mkdir(parents=True)
    counts = run_tasks([*plan_tasks(job, tmp_path)], tmp_path / "run", executor, Silent())
    assert counts == {"succeeded": 9, "failed": 1, "skipped": 1}
    assert (tmp_path / "log").read_text() == "top\nbottom\nlast\n"
