"""What the command line says of a line that it does not understand, and of warnings."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from command_line import commands
from tarmac.cli import entry, lead_process
from tarmac.cli.entry import _show_warning
from tarmac.cli.options import _ELSEWHERE
from tarmac.errors import PeerFailed


@pytest.mark.parametrize("words", [[], ["cluster"], ["hkube"], ["runs"], ["data"], ["env"]])
def test_a_group_without_a_command_shows_its_help_and_no_error(tarmac, words):
    code, out, err = tarmac(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"Usage: {' '.join(['tarmac', *words])} ")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["runs", "delete", "latest"], "rm"),
        (["runs", "ls"], "list"),
        (["runs", "shwo"], "show"),
        (["stop"], "cancel"),
        (["status"], "ps"),
        (["fit"], "train"),
        (["tune"], "search"),
        (["data", "download"], "fetch"),
        (["env", "ls"], "list"),
    ],
)
def test_an_unknown_command_is_answered_with_the_one_that_does_it(tarmac, words, meant):
    code, _, err = tarmac(*words)
    assert code == 2
    assert f"unknown command {words[-1] if len(words) < 3 else words[1]!r}, did you mean" in err
    assert f"did you mean {meant!r}?" in err


def test_the_commands_that_other_names_stand_for_exist():
    names = {line.rpartition(" ")[2] for line, _, _ in commands()}
    assert {meant for several in _ELSEWHERE.values() for meant in several} <= names


def test_a_wrong_option_among_many_names_the_nearest_and_the_help(tarmac):
    code, _, err = tarmac("train", "digits-mlp", "--epoch", "1")
    assert code == 2
    assert "did you mean '--epochs'?\n  See: tarmac train --help" in err
    assert "--strategy" not in err
    _, _, err = tarmac("schema", "job", "--nope")
    assert "Valid" in err


def test_a_warning_for_users_is_shown_without_a_line_of_code(capsys):
    _show_warning("the store is away", UserWarning, "threading.py", 982)
    assert capsys.readouterr().err == "warning: the store is away\n"
    _show_warning("old", RuntimeWarning, "a.py", 3, line="x = 1")
    assert capsys.readouterr().err == warnings.formatwarning(
        "old", RuntimeWarning, "a.py", 3, "x = 1"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\ncommand: echo a: b\n", "A text with ': ' in it needs quotes"),
        ("name: a\n\tcommand: b\n", "YAML is indented by spaces, never by tabs"),
        ('name: a\ncommand: "b\n', "A quote"),
        ("name: a\ncommand: [b\n", "is not closed"),
        ("name: a\ncommand: {{ lr }}\n", "A text that begins with a brace needs quotes"),
        ("name: a\n  command: b\n", "has another indent"),
        ("name: a\ncommand: *.py\n", "A text that begins with * needs quotes"),
        ('name: a\ncommand: "\\d"\n', "use single quotes"),
    ],
)
def test_a_mistake_in_yaml_is_answered_with_what_to_write(tarmac, tmp_path, text, said):
    (tmp_path / "job.yaml").write_text(text)
    code, _, err = tarmac("run", "job.yaml", "--dry-run")
    assert code == 2
    assert said in err
    assert "job.yaml:" in err


def test_a_program_in_the_place_of_a_job_file_is_told_how_to_become_one(tarmac, tmp_path):
    (tmp_path / "a loop.py").write_text("print(1)\n")
    code, _, err = tarmac("run", "a loop.py")
    assert code == 2
    assert "a loop.py is a program, expected a job file" in err
    assert f"command: python '{tmp_path / 'a loop.py'}'" in err
    assert "tarmac train 'a loop.py':workload" in err


@pytest.mark.parametrize("launcher", [{}, {"TORCHELASTIC_RUN_ID": "none"}])
def test_a_rank_with_nothing_to_say_lets_the_failed_one_speak_before_torchrun_ends_it(
    tarmac, monkeypatch, launcher
):
    def fail(*_, **__):
        raise PeerFailed("rank 1: ValueError")

    waits: list[float] = []
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(entry, "root", SimpleNamespace(main=fail))
    monkeypatch.setattr(lead_process.time, "sleep", waits.append)
    assert tarmac("runs", "list") == (1, "", "")
    assert len(waits) == len(launcher)


@pytest.fixture
def removed_directory(tmp_path, monkeypatch):
    """Go to a directory that is removed then."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()


@pytest.mark.usefixtures("removed_directory")
@pytest.mark.parametrize(
    "line",
    [
        "runs list",
        "ps",
        "top --once",
        "check --quick",
        "run {tmp}/job.yaml",
        "train digits-mlp --epochs 1 --output {tmp}",
        "search digits-mlp --trials 1 --output {tmp}",
        "eval latest",
        "report latest",
        "serve",
        "data list",
    ],
)
def test_a_current_directory_that_is_gone_is_the_error_before_a_command_is_imported(
    tarmac, tmp_path, monkeypatch, line
):
    def refuse(name):
        raise AssertionError(f"{name} was imported")

    monkeypatch.setattr(entry, "_command", refuse)
    code, out, err = tarmac(*line.format(tmp=tmp_path).split())
    assert (code, out) == (2, "")
    assert err == (
        "error: the current directory is gone: it was removed or its file system unmounted\n"
        "  Change to a directory that exists, and try again: cd ~\n"
    )


@pytest.mark.usefixtures("removed_directory")
@pytest.mark.parametrize(
    "line", ["--version", "--help", "train --help", "runs -h", "schema job", "completion bash"]
)
def test_what_needs_no_current_directory_works_where_it_is_gone(tarmac, line):
    code, out, err = tarmac(*line.split())
    assert (code, err) == (0, "")
    assert out


def test_an_error_shows_what_steers_a_terminal_as_escapes_in_a_pipe_too(tarmac, tmp_path):
    run = tmp_path / "spoof\r\x1b[K\x07\nerror: none\u202e"
    run.mkdir()
    (run / "run.json").write_text("{")
    code, _, err = tarmac("runs", "show", str(run))
    assert code == 1
    name = r"spoof\r\x1b[K\x07" + "\n  | " + r"error: none\u202e"
    assert err.startswith(f"error: {tmp_path}/{name}/run.json is damaged: ")
