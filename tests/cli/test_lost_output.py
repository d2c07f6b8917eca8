"""Output that is lost ends what reports, in words, and never what works."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

import tarmac
from command_line import commands
from damaged_records import make_good_runs
from tarmac.cli import main
from tarmac.cli.output import flush_output, guarded_output, outlives_output
from tarmac.errors import TarmacError
from tarmac.runs import list_runs

_FULL = "standard output cannot be written: No space left on device"

REPORTS = [
    "runs list",
    "runs list --json",
    "runs show good-training",
    "runs logs good-training",
    "runs compare good-training good-training",
    "ps --all",
    "ps --json",
    "logs good-job",
    "search list",
    "search show good-study",
    "search best good-study",
    "search export good-study",
    "report good-training --html - --no-pictures",
    "top --once",
    "top --json",
    "top --csv",
    "train --list",
    "schema job",
    "data list",
    "env list",
    "completion bash",
    "--version",
    *(f"{line} --help".removeprefix("tarmac ") for line, _, _ in commands()),
]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Return a directory with a run of each kind."""
    return make_good_runs(tmp_path_factory.mktemp("lost") / "runs")


@pytest.fixture
def output_lost(output, monkeypatch, tmp_path):
    """Return a function that makes standard output a full disk, or a pipe without a reader."""
    monkeypatch.setenv("TARMAC_RUNS", str(output))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    opened = []

    def lose(kind):
        if kind == "full":
            descriptor = os.open("/dev/full", os.O_WRONLY)
        else:
            reader, descriptor = os.pipe()
            os.close(reader)
        # Its own end must not complain of what nobody took.
        opened.append(io.TextIOWrapper(io.FileIO(descriptor, "w"), encoding="utf-8"))
        monkeypatch.setattr(sys, "stdout", opened[-1])

    yield lose
    monkeypatch.undo()
    for file in opened:
        file.close()


def call(words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    return int(caught.value.code or 0)


@pytest.mark.parametrize("words", REPORTS)
def test_a_full_standard_output_is_said_in_words(output_lost, capsys, words):
    output_lost("full")
    code = call(words.split())
    error = capsys.readouterr().err
    assert code == 1, error
    assert error == f"error: {_FULL}\n" or "no space left to write" in error


@pytest.mark.parametrize(
    "words",
    [
        "runs list",
        "runs show good-training",
        "ps --all",
        "report good-training --html - --no-pictures",
        "--help",
    ],
)
def test_a_reader_that_has_seen_enough_ends_a_report_without_a_word(output_lost, capsys, words):
    output_lost("closed")
    assert call(words.split()) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", ["runs list", "top --once", "search best good-study"])
@pytest.mark.parametrize("numbers", [(0,), (1,), (2,), (0, 1, 2)])
def test_streams_that_were_closed_lead_nowhere(output_lost, words, numbers):
    # For its directories alone.
    del output_lost
    pid = os.fork()
    if not pid:
        for number in numbers:
            os.close(number)
            setattr(sys, ("stdin", "stdout", "stderr")[number], None)
        try:
            code = call(words.split())
            places = {Path(f"/proc/self/fd/{number}").readlink() for number in numbers}
            os._exit(code if places == {Path(os.devnull)} else 98)
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize(("kind", "says"), [("full", f"warning: {_FULL}\n"), ("closed", "")])
def test_a_training_goes_on_without_its_output(output_lost, capsys, tmp_path, kind, says):
    output_lost(kind)
    options = "--epochs 2 --train-size 64 --device cpu --no-check --no-sampling --output"
    assert call(["train", "digits-mlp", *options.split(), str(tmp_path / "new")]) == 0
    assert capsys.readouterr().err == says
    ((run,), _) = list_runs(tmp_path / "new")
    assert (run.record.status, run.record.error) == ("completed", None)


def test_a_result_that_is_asked_for_is_missed(output_lost, capsys, tmp_path):
    output_lost("full")
    options = "--json --epochs 1 --train-size 64 --device cpu --no-check --no-sampling --output"
    assert call(["train", "digits-mlp", *options.split(), str(tmp_path / "new")]) == 1
    assert capsys.readouterr().err == f"error: {_FULL}\n"


def test_work_outlives_its_output_once_it_has_begun(output_lost, capsys):
    output_lost("full")
    with guarded_output():
        with outlives_output():
            print("lost")  # noqa: T201
            flush_output()
            print("lost too")  # noqa: T201
        flush_output()
    assert capsys.readouterr().err == f"warning: {_FULL}\n"
    output_lost("full")
    with guarded_output():
        print("missed")  # noqa: T201
        with pytest.raises(TarmacError, match=_FULL):
            flush_output()


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_any_text_is_shown_whatever_the_locale_encodes(monkeypatch, tmp_path, encoding, errors):
    with (tmp_path / "out").open("w", encoding=encoding, errors=errors) as file:
        monkeypatch.setattr(sys, "stdout", file)
        with guarded_output():
            print("a\ud800\udcff")  # noqa: T201
    assert (tmp_path / "out").read_text() == "a\\ud800\\udcff\n"


def test_a_hook_that_exits_is_the_reason_of_its_trainings_end(tmp_path):
    with pytest.raises(SystemExit):
        tarmac.train(
            "digits-mlp", train_size=64, device="cpu", output=tmp_path, stop=lambda _: sys.exit(3)
        )
    ((run,), _) = list_runs(tmp_path)
    assert run.record.error == "the program exited with 3"


def test_a_recording_that_cannot_be_written_fails(output, capsys, tmp_path):
    assert call(["top", "--once", "--record", str(tmp_path / "none" / "x.jsonl")]) == 1
    assert "warning: cannot write" in capsys.readouterr().err
    assert call(["top", "--once", "--record", "/dev/full"]) == 1
    assert "warning: no space left to write /dev/full" in capsys.readouterr().err
    assert call(["top", "--once", "--record", str(tmp_path / "x.jsonl")]) == 0
