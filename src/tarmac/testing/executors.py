"""What an executor promises: a conformance suite for `tarmac.jobs.Executor`.

Example::

    import pytest
    from tarmac.testing.executors import EXECUTOR_CHECKS, ExecutorCase

    @pytest.mark.parametrize("check", EXECUTOR_CHECKS)
    def test_mine_is_an_executor(check, tmp_path):
        check(ExecutorCase(kind=MINE, directory=tmp_path))

Each check starts real tasks in a directory of its own and raises an `AssertionError` that says what
is wrong. Tasks are lines for ``sh``; where they run, ``directory`` must be what it is here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import textwrap
from typing import TYPE_CHECKING

import psutil

from tarmac.errors import RequestError
from tarmac.jobs import Attempt, Busy, Silent, Site, parse_job, plan_tasks, run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tarmac.jobs import Executor, ExecutorKind, Finished, Task

__all__ = [
    "EXECUTOR_CHECKS",
    "ExecutorCase",
    "check_a_failure_is_a_result_and_no_exception",
    "check_a_graph_of_tasks_goes_through",
    "check_a_later_attempt_adds_to_what_an_earlier_one_printed",
    "check_a_stop_leaves_no_process",
    "check_a_task_sees_its_variables_and_secrets_and_no_others",
    "check_a_time_limit_is_kept",
    "check_an_attempt_runs_in_its_directory",
    "check_inputs_are_brought_and_outputs_kept",
    "check_only_the_last_attempts_outputs_are_kept",
    "check_waiting_returns_when_patience_ends",
    "check_what_a_task_keeps_in_the_run_is_there_for_the_next",
    "check_what_can_never_run_is_refused",
]

# How long a check waits for what should come at once.
_PATIENCE_S = 60.0

# A variable of this process that holds a secret, and the secret.
_VAULT = ("TARMAC_TESTING_VAULT", "pssst-17")


@dataclasses.dataclass(frozen=True)
class ExecutorCase:
    """An executor to be checked.

    Attributes:
        kind: Its row in the table of executors.
        directory: An empty one, for the tasks.
    """

    kind: ExecutorKind
    directory: Path

    def tasks(self, job: str) -> list[Task]:
        """Return the tasks of a job, given as the text of its file."""
        return [*plan_tasks(parse_job(textwrap.dedent(job)), self.directory)]

    def attempt(self, task: Task, number: int = 1) -> Attempt:
        """Return an attempt of a task, in a directory of the task's own."""
        return Attempt(task, number, self.directory / f"attempt-{task.index}")

    @contextlib.contextmanager
    def opened(self, tasks: Sequence[Task]) -> Iterator[Executor]:
        """Open an executor for some tasks, and close it with the block."""
        site = Site(tasks=tasks, base=self.directory, shared=self.directory / "shared")
        with contextlib.closing(self.kind.open(site)) as executor:
            yield executor

    def finish(self, job: str, number: int = 1) -> tuple[list[Attempt], dict[str, Finished]]:
        """Take a job's tasks, which need no others, to their ends.

        Args:
            job: As the text of its file.
            number: Of the attempt.

        Returns:
            The attempts in the order of the file, and their ends by task.
        """
        tasks = self.tasks(job)
        attempts = [self.attempt(task, number) for task in tasks]
        with self.opened(tasks) as executor:
            return attempts, _finish(executor, attempts)


def _finish(executor: Executor, attempts: Sequence[Attempt]) -> dict[str, Finished]:
    left, ends = [*attempts], dict[str, "Finished"]()
    while len(ends) < len(attempts):
        while left and not isinstance(executor.start(left[0]), Busy):
            left.pop(0)
        for finished in executor.wait(_PATIENCE_S):
            name = finished.attempt.task.name
            assert name not in ends, f"{name} ended twice"
            ends[name] = finished
    return ends


def _printed(attempt: Attempt, stream: str = "stdout") -> str:
    return (attempt.directory / stream).read_text(encoding="utf-8")


def check_an_attempt_runs_in_its_directory(case: ExecutorCase) -> None:
    """A task runs in ``work``, and what it prints is in ``stdout`` and ``stderr``."""
    (attempt,), ends = case.finish("{name: x, command: 'pwd; echo bad >&2'}")
    end = ends["x"]
    assert (end.outcome, end.exit_code, end.reason) == ("succeeded", 0, "")
    assert _printed(attempt) == f"{attempt.directory / 'work'}\n"
    assert _printed(attempt, "stderr") == "bad\n"


def check_a_failure_is_a_result_and_no_exception(case: ExecutorCase) -> None:
    """Exit codes, signals and a program that is not there are ends like others."""
    _, ends = case.finish(
        """
        name: x
        tasks:
          - {name: code, command: exit 3}
          - {name: signal, command: kill -SEGV $$}
          - {name: missing, command: [no-such-program]}
        """
    )
    assert {name: (end.outcome, end.exit_code, end.reason) for name, end in ends.items()} == {
        "code": ("failed", 3, "exit code 3"),
        "signal": ("failed", -11, "signal 11"),
        "missing": ("failed", None, "no-such-program: No such file or directory"),
    }


def check_a_task_sees_its_variables_and_secrets_and_no_others(case: ExecutorCase) -> None:
    """A secret is in the environment of the task that asks for it, and in no file."""
    name, secret = _VAULT
    with _variable(name, secret):
        (attempt, other), ends = case.finish(
            f"""
            name: x
            tasks:
              - name: x
                env: {{COLOUR: red}}
                secrets: {{TOKEN: {{env: {name}}}}}
                command: test "$COLOUR-$TOKEN" = red-{secret[:5]}-17 && echo "$TARMAC_TASK"
              - {{name: other, command: env}}
            """
        )
    assert {end.outcome for end in ends.values()} == {"succeeded"}, ends
    assert _printed(attempt) == "x\n"
    seen = _printed(other)
    assert "TARMAC_TASK=other" in seen
    assert not [word for word in ("COLOUR=", "TOKEN=", f"{name}=") if word in seen]
    files = (path for path in case.directory.rglob("*") if path.is_file())
    assert not [path for path in files if secret.encode() in path.read_bytes()]


def check_inputs_are_brought_and_outputs_kept(case: ExecutorCase) -> None:
    """What an output does not find is said, and the others are kept."""
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


def check_what_a_task_keeps_in_the_run_is_there_for_the_next(case: ExecutorCase) -> None:
    """``run:PATH`` is one place for all tasks of a run."""
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
    with case.opened(tasks) as executor:
        _finish(executor, [first])
        assert _finish(executor, [second])["b"].outcome == "succeeded"
    assert _printed(second) == "hello\nhello\n"


def check_only_the_last_attempts_outputs_are_kept(case: ExecutorCase) -> None:
    """An attempt that another one follows keeps nothing."""
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


def check_a_later_attempt_adds_to_what_an_earlier_one_printed(case: ExecutorCase) -> None:
    """Logs of attempts follow each other in one file."""
    job = "{name: x, command: 'echo $TARMAC_ATTEMPT'}"
    (attempt,), _ = case.finish(job, number=1)
    case.finish(job, number=2)
    assert _printed(attempt) == "1\n2\n"


def check_a_time_limit_is_kept(case: ExecutorCase) -> None:
    """A task that takes longer than its timeout has failed, and says so."""
    _, ends = case.finish("{name: x, command: [sleep, '600'], timeout: 0.2}")
    assert (ends["x"].outcome, ends["x"].reason) == ("failed", "its time limit of 0.2 s")


def check_a_stop_leaves_no_process(case: ExecutorCase) -> None:
    """`Executor.stop` interrupts a task with all that it has started."""
    (task,) = case.tasks("{name: x, command: 'sleep 600 & echo $!; wait'}")
    attempt = case.attempt(task)
    with case.opened([task]) as executor:
        assert not isinstance(executor.start(attempt), Busy)
        printed = attempt.directory / "stdout"
        while not (printed.exists() and printed.read_text(encoding="utf-8")):
            assert not executor.wait(0.02), "it ended by itself"
        executor.stop()
        (end,) = executor.wait(_PATIENCE_S)
        assert end.outcome == "interrupted"
        assert not executor.wait(0), "it ended twice"
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(_printed(attempt))).wait(_PATIENCE_S)


def check_waiting_returns_when_patience_ends(case: ExecutorCase) -> None:
    """`Executor.wait` gives nothing while nothing has ended."""
    (task,) = case.tasks("{name: x, command: [sleep, '600']}")
    with case.opened([task]) as executor:
        assert not isinstance(executor.start(case.attempt(task)), Busy)
        assert not executor.wait(0.05)
        executor.stop()
        (end,) = executor.wait(_PATIENCE_S)
    assert end.outcome == "interrupted"


def check_what_can_never_run_is_refused(case: ExecutorCase) -> None:
    """A task that needs more than there is is refused by its name, before anything is made."""
    tasks = case.tasks("{name: greedy, command: a, resources: {cpus: 1000000}}")
    said = ""
    try:
        case.kind.refuse(tasks, 0)
    except RequestError as error:
        said = error.message
    assert "greedy" in said, f"a task that needs a million CPUs is not refused by name: {said!r}"


def check_a_graph_of_tasks_goes_through(case: ExecutorCase) -> None:
    """Tasks run after what they need, a failure skips what needs it, the last task follows all."""
    log = case.directory / "log"
    tasks = case.tasks(
        f"""
        name: x
        tasks:
          - {{name: top, command: echo top >> {log}}}
          - {{name: side, needs: [top], sweep: {{repeat: 6}}, command: exit 0}}
          - {{name: broken, needs: [top], command: exit 1}}
          - {{name: after, needs: [broken], command: exit 0}}
          - {{name: bottom, needs: [side], command: echo bottom >> {log}}}
        after_all: {{name: last, command: echo last >> {log}}}
        """
    )
    (case.directory / "run/tasks").mkdir(parents=True)
    with case.opened(tasks) as executor:
        counts = run_tasks(tasks, case.directory / "run", executor, Silent())
    assert counts == {"succeeded": 9, "failed": 1, "skipped": 1}, counts
    assert log.read_text(encoding="utf-8") == "top\nbottom\nlast\n"


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[Mapping[str, str]]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield os.environ
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


EXECUTOR_CHECKS: tuple[Callable[[ExecutorCase], None], ...] = (
    check_an_attempt_runs_in_its_directory,
    check_a_failure_is_a_result_and_no_exception,
    check_a_task_sees_its_variables_and_secrets_and_no_others,
    check_inputs_are_brought_and_outputs_kept,
    check_what_a_task_keeps_in_the_run_is_there_for_the_next,
    check_only_the_last_attempts_outputs_are_kept,
    check_a_later_attempt_adds_to_what_an_earlier_one_printed,
    check_a_time_limit_is_kept,
    check_a_stop_leaves_no_process,
    check_waiting_returns_when_patience_ends,
    check_what_can_never_run_is_refused,
    check_a_graph_of_tasks_goes_through,
)
