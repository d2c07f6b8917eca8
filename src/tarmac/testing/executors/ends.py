"""Checks of how attempts end: by themselves, by their limits, and by a stop."""

from __future__ import annotations

import contextlib
import json
import sys

import psutil

from tarmac.testing.executors.case import PATIENCE_S, ExecutorCase, printed


def check_failures_are_results(case: ExecutorCase) -> None:
    """Check that exit codes, signals and a missing program are results, not exceptions."""
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


def check_timeouts_end_tasks(case: ExecutorCase) -> None:
    """Check that a task that exceeds its timeout fails with the limit as the reason."""
    _, ends = case.finish("{name: x, command: [sleep, '600'], timeout: 0.2}")
    assert (ends["x"].outcome, ends["x"].reason) == ("failed", "its time limit of 0.2 s")


def check_failures_have_causes(case: ExecutorCase) -> None:
    """Check that each kind of failure has its own cause."""
    hog = "import time; held = bytearray(200 * 2**20); time.sleep(600)"
    job = {
        "name": "x",
        "resources": {"cpus": 0.1},
        "tasks": [
            {"name": "none", "command": "exit 0"},
            {"name": "exit", "command": "exit 3"},
            {"name": "signal", "command": "kill -SEGV $$"},
            {"name": "timeout", "command": ["sleep", "600"], "timeout": 0.2},
            {"name": "start", "command": ["no-such-program"]},
            {
                "name": "memory",
                "command": [sys.executable, "-c", hog],
                "resources": {"memory": "100 MiB"},
            },
        ],
    }
    _, ends = case.finish(json.dumps(job))
    causes = {name: end.cause or "none" for name, end in ends.items()}
    assert causes == {name: name for name in ends}, ends


def check_stop_leaves_no_process(case: ExecutorCase) -> None:
    """Check that `Executor.stop` interrupts a task and all processes that it has started."""
    (task,) = case.tasks("{name: x, command: 'sleep 600 & echo $!; wait'}")
    attempt = case.attempt(task)
    with case.watched([task]) as watch:
        watch.start([attempt])
        watch.until_printed(attempt)
        watch.executor.stop()
        end = watch.finish([attempt])["x"]
        assert (end.outcome, end.cause) == ("interrupted", "stop"), end
        watch.hear(0.0)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(printed(attempt))).wait(PATIENCE_S)


def check_end_interrupts_one_attempt(case: ExecutorCase) -> None:
    """Check that `Executor.end` interrupts one attempt, with SIGKILL if it ignores SIGTERM."""
    tasks = case.tasks(
        """
        name: x
        resources: {cpus: 0.01}
        tasks:
          - {name: obedient, command: 'echo; exec sleep 600'}
          - {name: stubborn, command: "trap '' TERM; echo ready; while :; do sleep 600; done"}
          - {name: other, command: 'echo; exec sleep 600'}
        """
    )
    obedient, stubborn, other = (case.attempt(task) for task in tasks)
    with case.watched(tasks) as watch:
        watch.start([obedient, stubborn, other])
        for attempt in (obedient, stubborn, other):
            watch.until_printed(attempt)
        for attempt in (obedient, stubborn):
            watch.executor.end(attempt, "no longer needed", 0.2)
            watch.finish([attempt])
            watch.executor.end(attempt, "again", 0.0)
        assert watch.ends.keys() == {"obedient", "stubborn"}, watch.ends
        for name, code in (("obedient", -15), ("stubborn", -9)):
            end = watch.ends[name]
            facts = (end.outcome, end.reason, end.exit_code, end.cause)
            assert facts == ("interrupted", "no longer needed", code, "stop"), end
        watch.hear(0.0)
        assert "other" not in watch.ends, "an attempt ended without a request"
