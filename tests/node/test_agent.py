"""The agent takes an attempt from a file to its end, and writes down how it ended."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hostile import each_name
from tarmac.node import attempt_file, fence_file, read_attempt
from tarmac.node.inbox import Asked
from tarmac.node.program import supervise
from tarmac.processes import start

if TYPE_CHECKING:
    from collections.abc import Callable

# Says that it is there, counts each SIGTERM, and ends when it is told to.
_COUNTS_TERM = """
import signal, sys
def count(*_):
    print("TERM", flush=True)
    if sys.argv[2] == "ends":
        sys.exit(0)
signal.signal(signal.SIGTERM, count)
open(sys.argv[1], "w").write("ready")
while True:
    signal.pause()
"""

_SLURM = {"SLURM_JOB_ID": "80", "SLURMD_NODENAME": "n2"}


@pytest.mark.parametrize(
    ("command", "exit_code", "expected"),
    [
        (("true",), 0, ("succeeded", "", "", 0)),
        (("sh", "-c", "exit 3"), 3, ("failed", "exit", "exit code 3", 3)),
        (("sh", "-c", "kill -9 $$"), 137, ("failed", "signal", "signal 9", -9)),
        (("no-such",), 1, ("failed", "start", "no-such: No such file or directory", None)),
        (("echo", "a\0b"), 1, ("failed", "start", "echo: embedded null byte", None)),
    ],
    ids=["success", "exit", "signal", "missing", "null byte"],
)
def test_how_a_program_ended_is_written_and_told_the_engine(run, command, exit_code, expected):
    element = run.element(*command)
    assert run.run(element) == (exit_code, "")
    record = run.record(element)
    assert record.state == "ended"
    assert (record.outcome, record.cause, record.reason, record.exit_code) == expected


def test_time_and_memory_are_limited(run):
    late = run.element("sleep", "600", timeout_s=0.2)
    assert run.run(late) == (143, "")
    assert run.record(late).cause == "timeout"
    assert run.record(late).reason == "its time limit of 0.2 s"
    code = "b = b'x' * 200 * 2**20; import signal; signal.pause()"
    large = run.element(sys.executable, "-c", code, task=1, memory_bytes=100 * 2**20)
    assert run.run(large) == (137, "")
    assert run.record(large).cause == "memory"
    assert run.record(large).outcome == "failed"


@each_name
def test_any_path_argument_and_value_arrives_byte_for_byte(make_run, tmp_path, name):
    run = make_run(tmp_path / name)
    code = "import os, sys; print([sys.argv[1], os.environ['V'], os.path.basename(os.getcwd())])"
    element = run.element(sys.executable, "-c", code, name, variables={"V": name})
    assert run.run(element) == (0, "")
    assert run.printed(element) == f"{[name, name, 'work']}\n"


def test_the_program_gets_what_the_engine_and_the_runner_say_and_no_more(run):
    element = run.element("env", "-0", task=7, number=2, variables={"OWN": "1"})
    assert run.run(element, SLURM_RESTART_COUNT="3", FROM_ENGINE="2", **_SLURM) == (0, "")
    values = dict(entry.split("=", 1) for entry in run.printed(element).split("\0") if entry)
    values.pop("TARMAC_RUN")
    values.pop("PATH")
    assert values == {
        "CUDA_VISIBLE_DEVICES": "",
        "FROM_ENGINE": "2",
        "OWN": "1",
        "SLURM_RESTART_COUNT": "3",
        "TARMAC_ATTEMPT": "2",
        "TARMAC_GPUS_PER_NODE": "0",
        "TARMAC_NODES": "1",
        "TARMAC_NODE_RANK": "0",
        "TARMAC_RESTART": "3",
        "TARMAC_TASK": "task 7",
        "TARMAC_TASK_INDEX": "7",
        **_SLURM,
    }


def test_the_record_says_where_it_ran_by_the_engines_names(run):
    element = run.element("true")
    variables = {"SLURM_ARRAY_JOB_ID": "79", "SLURM_ARRAY_TASK_ID": "5", **_SLURM}
    assert run.run(element, **variables) == (0, "")
    record = run.record(element)
    assert (record.host, record.engine_id, record.nonce) == ("n2", "79_5", "ours")


def test_nothing_is_left_of_what_was_empty(run):
    element = run.element("sh", "-c", "echo said >&2")
    run.run(element)
    assert sorted(path.name for path in Path(element.directory).iterdir()) == [
        "attempt-1.json",
        "stderr",
        "work",
    ]


def test_a_restart_adds_to_what_was_printed_and_says_so(run):
    pipe = run.pipe()
    element = run.element("sh", "-c", f"echo out; echo err >&2; echo > {pipe}; sleep 600")
    agent = run.start(element, **_SLURM)
    pipe.read_text()
    # Slurm asks all processes of a job to end; here its program is asked for it.
    agent.send_signal(signal.SIGUSR1)
    assert run.end(agent)[0] == 143
    assert run.record(element).outcome == "interrupted"
    short = element._replace(command=["sh", "-c", "echo out; echo err >&2"])
    assert run.run(short, SLURM_RESTART_COUNT="1", **_SLURM) == (0, "")
    assert run.printed(element) == "out\nout\n"
    assert run.printed(element, "stderr") == "err\n--- restart 1 on n2 ---\nerr\n"
    assert run.record(element).restart == 1
    assert run.record(element).outcome == "succeeded"


@pytest.mark.parametrize(
    ("number", "variables", "told", "cause"),
    [
        (signal.SIGTERM, {}, "TERM\n", "stop"),
        # To each process of a job: here by nobody, so it would be the second.
        (signal.SIGTERM, _SLURM, None, "stop"),
        (signal.SIGUSR1, _SLURM, "TERM\n", "timeout"),
        (signal.SIGINT, {}, "TERM\n", "stop"),
    ],
    ids=["no engine", "slurm", "slurm warns", "interrupt"],
)
def test_a_program_is_asked_once_and_killed_after_its_grace(run, number, variables, told, cause):
    pipe = run.pipe()
    command = (sys.executable, "-c", _COUNTS_TERM, str(pipe), "stays")
    # Time for its line also where the machine is busy.
    element = run.element(*command, grace_s=3)
    agent = run.start(element, **variables)
    pipe.read_text()
    for _ in range(3):
        agent.send_signal(number)
    assert run.end(agent) == (137, "")
    record = run.record(element)
    assert (record.outcome, record.cause, record.exit_code) == ("interrupted", cause, -9)
    if told is None:
        assert not Path(element.directory, "stdout").exists()
    else:
        assert run.printed(element) == told


def test_a_program_that_slurm_ended_before_its_agent_heard_is_interrupted(run, end_unheard):
    pipe = run.pipe()
    element = run.element("sh", "-c", f"echo $$ > {pipe}; sleep 600")
    agent = run.start(element, **_SLURM)
    end_unheard(agent, int(pipe.read_text()))
    assert run.record(element).outcome == "interrupted"
    assert run.record(element).reason == "its engine ended it (SIGTERM)"


def test_a_program_that_ends_well_as_slurm_ended_its_child_first_is_interrupted(run, end_unheard):
    pipe = run.pipe()
    # A shell that waits for all its children ends with 0 whatever became of them.
    element = run.element("sh", "-c", f"sleep 600 & echo $! > {pipe}; wait")
    agent = run.start(element, **_SLURM)
    end_unheard(agent, int(pipe.read_text()))
    assert run.record(element).outcome == "interrupted"
    assert run.record(element).reason == "its engine ended it (SIGTERM)"


def test_a_program_that_ends_well_when_asked_is_interrupted_all_the_same(run):
    pipe = run.pipe()
    element = run.element(sys.executable, "-c", _COUNTS_TERM, str(pipe), "ends")
    agent = run.start(element, **_SLURM)
    pipe.read_text()
    agent.send_signal(signal.SIGUSR1)
    # The engine hears a failure: what ended with success is not begun again.
    assert run.end(agent) == (1, "")
    assert run.record(element).outcome == "interrupted"
    assert run.record(element).exit_code == 0


def test_elements_of_one_unit_run_one_after_another(run):
    order = run.path / "order"
    elements = [
        run.element("sh", "-c", f"echo {task} >> {order}; exit {task}", task=task)
        for task in range(5)
    ]
    spec = run.chunk(*elements)
    assert run.run(spec=spec, arguments=("1", "2")) == (2, "")
    assert order.read_text().split() == ["2", "3"]
    assert run.run(spec=spec, arguments=("2", "2")) == (4, "")
    assert order.read_text().split() == ["2", "3", "4"]


def test_a_unit_that_is_asked_to_end_begins_no_other_element(run):
    pipe = run.pipe()
    first = run.element("sh", "-c", f"echo > {pipe}; sleep 600")
    second = run.element("true", task=1)
    agent = run.start(first, second, arguments=("0", "2"))
    pipe.read_text()
    agent.terminate()
    assert run.end(agent) == (143, "")
    assert not Path(second.directory).exists()


def test_a_unit_whose_engine_has_gone_begins_no_other_element(run):
    pipe = run.pipe()
    first = run.element("sh", "-c", f"echo > {pipe}; sleep 600")
    second = run.element("true", task=1)
    engine = {"TARMAC_ENGINE": "Ray", "TARMAC_ENGINE_LIFELINE": "1"}
    agent = run.start(first, second, arguments=("0", "2"), stdin=subprocess.PIPE, **engine)
    pipe.read_text()
    agent.stdin.close()
    agent.stdin = None
    assert run.end(agent) == (143, "")
    assert run.record(first).reason == "the process that started its agent is gone"
    assert not Path(second.directory).exists()


def test_a_unit_that_leaves_elements_for_another_is_no_success(run):
    pipe = run.pipe()
    first = run.element(sys.executable, "-c", _COUNTS_TERM, str(pipe), "ends")
    second = run.element("true", task=1)
    agent = run.start(first, second, arguments=("0", "2"), **_SLURM)
    pipe.read_text()
    agent.send_signal(signal.SIGUSR1)
    # Its engine would else say that both are done.
    assert run.end(agent) == (1, "")
    assert run.record(first).outcome == "interrupted"
    assert not Path(second.directory).exists()


def test_secrets_are_read_from_files_and_reach_the_program_alone(run):
    secret = run.path / "secret"
    secret.write_bytes(b"p\xff w\n")
    element = run.element("sh", "-c", 'printf %s "$KEY"', secrets={"KEY": str(secret)})
    assert run.run(element) == (0, "")
    assert Path(element.directory, "stdout").read_bytes() == b"p\xff w"


def test_a_secret_that_is_not_there_is_named(run):
    element = run.element("true", secrets={"KEY": str(run.path / "none")})
    assert run.run(element, **_SLURM) == (1, "")
    assert run.record(element).cause == "start"
    assert run.record(element).reason == (
        f"not started: the secret KEY cannot be read on n2: {run.path / 'none'}: "
        "No such file or directory"
    )


def test_work_on_the_nodes_own_disk_is_private_and_removed(run):
    scratch = run.path / "scratch"
    elements = [
        run.element("sh", "-c", "pwd; stat -c %a .; touch made", task=task, work="$SCRATCH/tarmac")
        for task in range(2)
    ]
    assert run.run(*elements, arguments=("0", "2"), SCRATCH=str(scratch)) == (0, "")
    for element in elements:
        place, mode = run.printed(element).split()
        assert Path(place).parent == scratch / "tarmac"
        assert mode == "700"
    assert [*(scratch / "tarmac").iterdir()] == []


def test_a_place_for_work_that_the_node_does_not_name_is_told(run):
    element = run.element("true", work="$NO_SUCH/tarmac")
    assert run.run(element, **_SLURM) == (1, "")
    assert run.record(element).reason == (
        "not started: work is $NO_SUCH/tarmac, and n2 does not set that variable"
    )


def test_a_chunk_that_is_seen_late_is_waited_for(run):
    element = run.element("true")
    spec = run.path / "chunks" / "0000.spec"
    agent = run.start(spec=spec)
    attempt = attempt_file(Path(element.directory), 1)
    run.chunk(element)
    assert run.end(agent) == (0, "")
    assert attempt.exists()


def test_an_engine_that_ignores_ended_children_hides_no_failure(run):
    code = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "os.execv(sys.executable, [sys.executable, '-I', '-S', *sys.argv[1:]])\n"
    )
    element = run.element("sh", "-c", "exit 3")
    assert run.run(element, interpreter=(sys.executable, "-c", code)) == (3, "")
    assert run.record(element).outcome == "failed"


@pytest.mark.parametrize("arguments", [(), ("x",), ("0", "x")])
def test_wrong_use_is_told(run, arguments):
    assert run.run(run.element("true"), arguments=arguments) == (
        2,
        "tarmac: expected SPEC UNIT [PER_JOB]\n",
    )


def test_a_full_disk_leaves_no_program_without_its_record(make_run, small_disk):
    disk = small_disk("2m")
    run = make_run(disk / "run")
    fill = "dd if=/dev/zero of=fill bs=4096 2>/dev/null; echo lost; exit 3"
    element = run.element("sh", "-c", fill)
    assert run.run(element) == (3, "")
    record = run.record(element)
    assert record.outcome == "failed"
    assert record.reason == "exit code 3, and no space is left on its disk"


def test_a_disk_that_is_full_before_is_told_the_engine(make_run, small_disk):
    disk = small_disk("2m")
    run = make_run(disk / "run")
    element = run.element("true")
    spec = run.chunk(element)
    filled = subprocess.run(
        ["dd", "if=/dev/zero", f"of={disk}/fill", "bs=4096"], capture_output=True, check=False
    )
    assert filled.returncode != 0
    exit_code, said = run.run(spec=spec)
    assert exit_code == 1
    assert "No space left on device" in said
    assert not attempt_file(Path(element.directory), 1).exists()


def test_a_file_system_that_is_away_for_a_while_ends_nothing(run):
    ready, go = run.pipe("ready"), run.pipe("go")
    element = run.element("sh", "-c", f"echo > {ready}; cat {go}; exit 3", beat_s=0.1)
    agent = run.start(element)
    ready.read_text()
    away = run.path / "away"
    (run.path / "tasks").rename(away)
    go.write_text("went on\n")
    # It has ended, which cannot be written yet.
    assert read_attempt(away / "0", 1).state == "began"
    away.rename(run.path / "tasks")
    assert run.end(agent) == (3, "")
    assert run.record(element).exit_code == 3


def test_a_directory_of_another_user_is_told_the_engine(make_run, open_directory, second_user):
    run = make_run(open_directory / "run")
    element = run.element("true")
    spec = run.chunk(element)
    command = ["/usr/bin/env", "-i", "/bin/sh", str(run.agent), str(spec), "0"]
    path = f"PATH={os.environ['PATH']}:/usr/bin:/bin"

    def call() -> tuple[int, str]:
        done = subprocess.run(
            [*command[:2], path, *command[2:]], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    exit_code, said = second_user(call)
    assert exit_code == 1
    assert said.startswith(f"tarmac: {element.directory}: ")
    assert "Permission denied" in said


class SuspendedOnce:
    """An inbox whose first wait takes 1,000 s of the clock, as where all processes are suspended.

    Args:
        request: Request to end from the start.
        resume: Called in the second wait.
    """

    def __init__(self, request: Asked | None, resume: Callable[[], object]) -> None:
        self.request = request
        self.passed_s = 0.0
        self._resume = resume

    def wait(self, _patience_s: float, descriptor: int) -> None:
        if not self.passed_s:
            self.passed_s = 1000.0
            return
        self._resume()
        select.select([descriptor], [], [])

    def hear_late(self, *, has_failed: bool) -> None:
        assert not has_failed


@pytest.mark.parametrize(
    ("end_request", "limit"),
    [(None, {"timeout_s": 60}), (Asked("stop it"), {"grace_s": 60})],
    ids=["time limit", "grace"],
)
def test_time_while_all_is_suspended_does_not_count(tmp_path, monkeypatch, end_request, limit):
    ready, go = tmp_path / "ready", tmp_path / "go"
    for pipe in (ready, go):
        os.mkfifo(pipe)
    process = start(
        ["sh", "-c", f"trap '' TERM; echo > {ready}; read words < {go}; echo $words"],
        directory=tmp_path,
        environment=os.environ,
        stdout=tmp_path / "stdout",
        stderr=tmp_path / "stderr",
    )
    ready.read_text()
    with go.open("r+b", buffering=0) as written:
        inbox = SuspendedOnce(end_request, lambda: written.write(b"went on\n"))
        clock = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: clock() + inbox.passed_s)
        code, seconds = supervise(process, inbox, **limit)
    assert (code, (tmp_path / "stdout").read_text()) == (0, "went on\n")
    assert seconds < 60


def test_a_record_is_read_by_other_programs_as_json(run):
    element = run.element("true")
    run.run(element)
    text = attempt_file(Path(element.directory), 1).read_text()
    assert json.loads(text)["schema"] == 1


def test_a_fence_ends_an_attempt_at_its_next_beat_with_its_words(run):
    pipe = run.pipe()
    element = run.element("sh", "-c", f"echo > {pipe}; sleep 600", beat_s=0.1)
    other = run.element("true", task=1)
    agent = run.start(element, other, arguments=("0", "2"))
    pipe.read_text()
    fence_file(Path(element.directory), 1).write_text("nothing was heard of it\n")
    assert run.end(agent) == (143, "")
    assert run.record(element).outcome == "interrupted"
    assert run.record(element).reason == "nothing was heard of it"
    # That was for one attempt, not for the engine's unit.
    assert run.record(other).outcome == "succeeded"
