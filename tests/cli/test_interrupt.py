"""Ctrl-C: exit code 130, what happened in a word, and how to go on."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forked import ForkedProcess, run_python, start_python
from waiting import limit_s

SAMPLE = Path(__file__).parents[1] / "runs" / "samples" / "run-schema-1.json"

TARMAC = ("-m", "tarmac")


def start(*arguments: str, **variables: str) -> ForkedProcess:
    return start_python(
        *TARMAC,
        *arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | variables,
    )


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_is_interrupted_says_how_to_go_on(tmp_path, sent):
    (tmp_path / "job.yaml").write_text(
        f"{{name: x, tasks: [{{name: a, command: 'test -e {tmp_path}/go || sleep 600'}}]}}"
    )
    with start("run", "job.yaml") as running:
        assert any("started" in line for line in running.stdout)
        running.send_signal(sent)
        _, err = running.communicate()
    (run,) = (tmp_path / "runs").iterdir()
    assert running.returncode == 130
    assert err.splitlines() == [
        "interrupted",
        f"  Resume the remaining tasks: tarmac run --resume {run}",
    ]
    (tmp_path / "go").touch()
    again = run_python(*TARMAC, *err.split("tarmac ")[1].split())
    assert again.returncode == 0, again.stdout + again.stderr


def test_a_download_that_is_interrupted_says_so(tmp_path, slow_server):
    mirror = slow_server.url.rpartition("/")[0]
    variables = {
        "TARMAC_DATA": str(tmp_path / "data"),
        "TARMAC_MIRROR": mirror,
        "NO_PROXY": "127.0.0.1",
    }
    with start("data", "fetch", "mnist", **variables) as running:
        assert slow_server.begun.wait(timeout=limit_s(120))
        running.send_signal(signal.SIGINT)
        _, err = running.communicate()
    assert (running.returncode, err.strip()) == (130, "interrupted")


@pytest.mark.parametrize(
    ("answer", "code", "said"), [(b"n\n", 1, "error: not confirmed"), (b"\x03", 130, "interrupted")]
)
def test_a_question_that_is_not_answered_with_yes_removes_nothing(tmp_path, answer, code, said):
    run = tmp_path / "runs" / "old"
    run.mkdir(parents=True)
    shutil.copy(SAMPLE, run / "run.json")
    leader, follower = pty.openpty()
    with subprocess.Popen(
        # The terminal is its own, so that Ctrl-C there is a signal to it.
        ["setsid", "--ctty", sys.executable, *TARMAC, "runs", "rm", run.name],
        stdin=follower,
        stdout=follower,
        stderr=subprocess.PIPE,
        text=True,
    ) as asking:
        os.close(follower)
        seen = b""
        while b"old" not in seen:
            seen += os.read(leader, 4096)
        # Python loses a Ctrl-C that comes just as it begins to read the line: who sees that nothing
        # happens presses it again.
        while asking.returncode is None:
            os.write(leader, answer)
            with contextlib.suppress(subprocess.TimeoutExpired):
                asking.wait(limit_s(5))
        err = asking.stderr.read()
    os.close(leader)
    assert (asking.returncode, said in err) == (code, True), err
    assert (run / "run.json").exists()


def test_an_interruption_while_the_command_line_loads_is_no_traceback(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'tarmac.cli.entry':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    ended = subprocess.run(
        [sys.executable, *TARMAC, "runs", "list"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s(60),
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")
