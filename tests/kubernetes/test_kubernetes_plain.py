"""Images without Python: sh does what the agent does elsewhere."""

from __future__ import annotations

import json

import pytest

from tarmac.jobs import find_executor
from tarmac.testing.executors import ExecutorCase

_PRINTS = """
name: x
command: |
  command -v python3
  echo "$TARMAC_TASK it's [$CUDA_VISIBLE_DEVICES]"
  echo err >&2
  printf rest
"""

_LIMITED = """
name: x
timeout: 1
command: |
  trap 'echo told; exit 5' TERM
  sleep 60 & wait
"""

_STOPPED = """
name: x
command: |
  trap 'echo ended; exit 7' TERM
  echo begun
  sleep 99 & wait
"""

# A program that takes ever more memory, by a shell alone.
_HUNGRY = """
name: x
command: |
  echo begun
  x=12345678
  while :; do x=$x$x; done
resources: {memory: 16M}
"""


@pytest.fixture
def case(start_cluster, tmp_path):
    """Return a case whose image has few commands, and no Python."""
    cluster = start_cluster(capacity={"cpu": "8", "memory": "8Gi"})
    options = {"kubeconfig": str(cluster.kubeconfig), "image": "plain.invalid/tools"}
    return ExecutorCase(find_executor("kubernetes"), tmp_path, options={"kubernetes": options})


def finish(case, job):
    (attempt,), ends = case.finish(job)
    return attempt.directory, ends["x"]


def test_what_a_program_prints_comes_back_from_an_image_without_python(case):
    directory, end = finish(case, _PRINTS)
    assert (end.outcome, end.exit_code, end.reason) == ("succeeded", 0, "")
    assert (directory / "stdout").read_text() == "x it's []\nrest"
    assert (directory / "stderr").read_text() == "err\n"
    record = json.loads((directory / "attempt-1.json").read_text())
    assert (record["host"], record["state"]) == ("n1", "ended")


@pytest.mark.parametrize(
    ("command", "cause", "code", "words"),
    [
        ("exit 3", "exit", 3, "exit code 3"),
        ("kill -KILL $$", "signal", -9, "signal 9"),
    ],
)
def test_how_a_program_ends_is_told(case, command, cause, code, words):
    _, end = finish(case, f"{{name: x, command: '{command}'}}")
    assert (end.outcome, end.cause, end.exit_code, end.reason) == ("failed", cause, code, words)


def test_too_much_memory_is_said_in_words_without_python(case):
    directory, end = finish(case, _HUNGRY)
    assert (end.outcome, end.cause) == ("failed", "memory")
    assert "used more memory than its limit; raise `memory`" in end.reason
    assert (directory / "stdout").read_text() == "begun\n"


def test_a_time_limit_is_kept_without_python(case):
    directory, end = finish(case, _LIMITED)
    assert (end.outcome, end.cause) == ("failed", "timeout")
    assert end.reason == "its time limit of 1 s"
    assert (directory / "stdout").read_text() == "told\n"


def test_what_is_stopped_without_python_says_its_last_words(case):
    tasks = case.tasks(_STOPPED)
    attempt = case.attempt(tasks[0])
    with case.watched(tasks) as watch:
        watch.start([attempt])
        watch.until_printed(attempt)
        watch.executor.stop()
        end = watch.finish([attempt])["x"]
    assert (end.outcome, end.cause, end.exit_code) == ("interrupted", "stop", 7)
    assert (attempt.directory / "stdout").read_text() == "begun\nended\n"
