"""Completion in real shells: what Tab makes of a line."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}

# What a user has in a startup file, and what says that all of it is done.
SETUP = {
    "bash": "bind 'set enable-bracketed-paste off'; eval \"$(tarmac completion bash)\"",
    "zsh": 'autoload -U compinit; compinit -D -u; eval "$(tarmac completion zsh)"',
    "fish": "tarmac completion fish | source",
}

TIMEOUT_S = 120


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    (tmp_path / "runs").mkdir()
    for name, record in [("first-run", "run.json"), ("a-job", "job-run.json")]:
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / record).write_text("{}")
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        "PS1": "> ",
    }


def completed(shell: str, line: str, environment: dict[str, str]) -> str:
    """Type a line and Tab at a shell on a terminal; return what the line then is.

    The shell itself prints it: the line is the argument of a command, which Enter runs.
    """
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        SHELLS[shell],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        start_new_session=True,
    )
    os.close(follower)
    seen = ""

    def until(pattern: str) -> re.Match[str]:
        nonlocal seen
        while not (match := re.search(pattern, seen)):
            ready, _, _ = select.select([leader], [], [], TIMEOUT_S)
            assert ready, f"{shell} has printed no {pattern!r}, but {seen!r}"
            seen += os.read(leader, 65536).decode(errors="replace")
        seen = seen[match.end() :]
        return match

    try:
        os.write(leader, f"{SETUP[shell]}; echo read''y\n".encode())
        until("\r?\nready")
        os.write(leader, f"{line}\t".encode())
        return until(re.escape(line) + r"(\S+)")[1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
        os.close(leader)


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("tarmac sub", "mit"),
        ("tarmac train --prec", "ision"),
        ("tarmac train digits-mlp --precision b", "f16"),
        ("tarmac train mnist-m", "lp"),
        ("tarmac data verify fash", "ion-mnist"),
        ("tarmac runs show fir", "st-run"),
        ("tarmac logs a-", "job"),
        ("tarmac search dashb", "oard"),
        ("tarmac search --method bru", "te"),
        ("tarmac search --objective params,val_a", "ccuracy"),
        ("tarmac check --provision chai", "ner"),
    ],
)
def test_bash_completes_commands_options_and_values(tmp_path, environment, line, rest):
    assert completed("bash", line, environment) == rest


@pytest.mark.parametrize(
    ("line", "rest"),
    [("tarmac sub", "mit"), ("tarmac train --prec", "ision"), ("tarmac runs show fir", "st-run")],
)
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_too(tmp_path, environment, shell, line, rest):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; apt-get install {shell}")
    if shell == "zsh":
        assert completed(shell, line, environment) == rest
        return
    # Fish says itself what Tab would offer.
    asked = f"{SETUP[shell]}; complete --do-complete {line!r}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    offered = [row.partition("\t")[0] for row in done.stdout.splitlines()]
    assert offered == [line.rpartition(" ")[2] + rest], done.stderr


@pytest.mark.parametrize(
    "line", ["tarmac logs nothing x", "tarmac trian x", "tarmac run --set a x"]
)
def test_a_line_that_is_wrong_is_completed_with_nothing_and_without_a_word(tmp_path, line):
    words = line.split()
    done = subprocess.run(
        [sys.executable, "-m", "tarmac"],
        env=os.environ
        | {
            "_TARMAC_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert not re.search("^plain", done.stdout, re.MULTILINE)


def test_completing_loads_no_framework(tmp_path):
    program = (
        "import sys\n"
        "from tarmac.cli import main\n"
        "try: main([])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'optuna') if m in sys.modules])"
    )
    for line in ("tarmac train m", "tarmac search b", "tarmac data fetch m", "tarmac runs show l"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ
            | {"_TARMAC_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "2"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "plain," in done.stdout
        assert done.stdout.splitlines()[-1] == "[]"


def test_a_shell_without_a_script_is_refused(tarmac):
    code, _, err = tarmac("completion", "tcsh")
    assert (code, err) == (
        2,
        "error: unknown shell 'tcsh'\n  Valid: bash, fish, zsh\n",
    )
