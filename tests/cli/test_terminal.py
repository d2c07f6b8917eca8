"""What others have named or printed commands nobody's terminal."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest

from damaged_records import MAKERS
from tarmac.checks.soak import SoakedDevice, SoakProgress
from tarmac.cli import main
from tarmac.cli.console import make_console
from tarmac.cli.terminal import TerminalStream, harmless
from tarmac.cli.views.download import download_progress
from tarmac.cli.views.soak import soaking

# A title, the clipboard, a question whose answer is typed, a cleared screen, by two forms.
EVIL = "\x1b]0;title\x07\x1b]52;c;Y3VybA==\x1b\\\x1b[6n\x1b[2J\x9b2J\x1bPq\x1b\\\x08\u202e"
NAMED = re.compile(r"name|workload|error|reason|host|model|message|cause|state", re.IGNORECASE)
# Colours and the clearing of a line's end; and what Rich sends where a terminal is.
OWN = re.compile(r"\r\x1b\[2K|\x1b\[(?:K|[0-9;]*m|\?25[lh])")


class Terminal(io.StringIO):
    encoding = "utf-8"
    errors = "strict"

    def isatty(self):
        return True


@pytest.fixture
def typed(monkeypatch):
    """Return a function that runs a command on a terminal and returns what that was sent."""

    def run(*words):
        terminal = Terminal()
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, terminal)
        with pytest.raises(SystemExit):
            main([str(word) for word in words])
        return terminal.getvalue()

    return run


def hostile(value, key=""):
    """Return a record in which each text that is a name or a reason commands a terminal."""
    if isinstance(value, dict):
        return {inner: hostile(one, inner) for inner, one in value.items()}
    if isinstance(value, list):
        return [hostile(one, key) for one in value]
    return value + EVIL if isinstance(value, str) and NAMED.search(key) else value


@pytest.fixture(scope="module")
def runs_of_others(tmp_path_factory):
    output = tmp_path_factory.mktemp("runs")
    for kind, make in MAKERS.items():
        run = make(output, f"evil-{kind}{EVIL.replace('/', '')}")
        for path in [*run.rglob("*.json"), *run.rglob("*.jsonl"), *run.rglob("journal.log")]:
            lines = path.read_text().splitlines() if path.suffix != ".json" else [path.read_text()]
            path.write_text("".join(json.dumps(hostile(json.loads(one))) + "\n" for one in lines))
        for path in [*run.rglob("stdout"), *run.glob("logs/*")]:
            path.write_text(f"a line {EVIL}\n")
        for path in make(output, f"plain-{kind}").rglob("stdout"):
            path.write_text(f"a line {EVIL}\n")
    broken = output / f"broken{EVIL}"
    broken.mkdir()
    (broken / "run.json").write_text(json.dumps({"schema_version": EVIL}))
    return output


VERBS = (
    [["runs", "list"], ["ps", "--all"], ["search", "list"], ["top", "--once"]]
    + [["runs", "rm", "none"], ["runs", "show", EVIL], ["report", EVIL, "--html", "-"]]
    + [["runs", verb, f"evil-{kind}"] for kind in MAKERS for verb in ("show", "logs")]
    + [["runs", "compare", f"evil-{kind}", f"plain-{kind}"] for kind in MAKERS]
    + [["logs", "evil-job"], ["logs", "plain-job"], ["search", "best", "evil-study"]]
    + [
        ["train", "--resume", "evil-training"],
        ["run", "--resume", "evil-job"],
        ["cancel", "evil-job"],
    ]
)


@pytest.mark.parametrize(
    "words", VERBS, ids=lambda words: " ".join(words).encode("unicode_escape").decode()
)
def test_no_command_of_others_reaches_a_terminal(typed, runs_of_others, words):
    sent = OWN.sub("", typed(*words, "--output", runs_of_others))
    # What the others have named or printed is there; no run is active.
    assert "title" in sent or "2J" in sent or words[0] == "top"
    assert not re.search(r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]", sent), repr(sent)


# A terminal obeys these of logs and progress bars; in a name, they would hide a message.
SPOOF = "spoof\r\x1b[K\x1b[35mall is well\x1b[0m\nerror: none\u202e"


@pytest.fixture(scope="module")
def spoofs(tmp_path_factory):
    """Return a directory with runs, broken and whole, whose names pretend to be messages."""
    output = tmp_path_factory.mktemp("spoofs")
    for kind, make in MAKERS.items():
        make(output, f"{kind}-{SPOOF}")
        broken = make(output, f"broken-{kind}-{SPOOF}")
        for record in ("run.json", "study.json", "job-run.json"):
            if (broken / record).exists():
                (broken / record).write_text("{")
    return output


# A job that is gone on with would try its failed task again.
SPOOFED = (
    *("runs show {run}", "runs show {dir}/{run}", "runs logs {run}", "runs compare {run} {run}"),
    *("report {run}", "eval {run}", "predict {run} x.npy", "export {run} --to state"),
    *("train --resume {run}", "train --from-checkpoint {run} --epochs 9"),
    *("train digits-mlp --init-from {run}", "train {dir}/{run}/none.py:workload"),
    *("logs {run}", "ps {run}", "cancel {run}", "run --resume broken-{run}"),
    *("run --resume pipeline-", "run {dir}/{run}/none.yaml", "check --read {run}"),
    *("search show {run}", "search best {run}", "search export {run}", "search --resume {run}"),
    "search plot {run} --to x.html",
)


@pytest.mark.parametrize("line", SPOOFED)
def test_a_name_does_not_pretend_to_be_a_message(typed, spoofs, line):
    for kind in MAKERS:
        for run in (f"broken-{kind}-", f"{kind}-", f"{kind}-{SPOOF}"):
            words = [word.format(run=run, dir=spoofs) for word in line.split()]
            where = [] if words[0] == "check" else ["--output", spoofs]
            sent = typed(*words, *where)
            assert not re.search(
                r"spoof\r|spoof\x1b|\x1b\[K|\x1b\[35m|\n *error: none|\u202e", sent
            ), sent


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m\tand\x1b[1;32mgreen\x1b[m\n", None),
        ("\r 10 %\r 20 %\x1b[K\n", None),
        ("ä 漢字 👍\n", None),
        ("a\x1b[8mhidden", "ahidden"),
        ("a\x1b[0;8mb\x1b[31;08;1mhidden", "abhidden"),
        ("\x1b[38;5;8mgrey\x1b[1;48;2;8;8;8mon grey\x1b[18;80mrest", None),
        ("\x1b[" + "38;5;1;" * 40 + "z", ""),
        ("a\x1b[2Jb\x1b[Hc\x1b[6nd", "abcd"),
        ("a\x1b]0;title\x07b\x1b]52;c;eA==\x1b\\c", "abc"),
        ("a\x1bP$q\x1b\\b\x1b_x\x1b\\c\x1b^x\x1b\\d", "abcd"),
        ("a\x1bcb\x9b2Jc\x07\x00\x7f", "a?cb?2Jc???"),
        ("a\x1b]0;without an end", "a?]0;without an end"),
        ("rm \u202egnp.exe", "rm ?gnp.exe"),
    ],
)
def test_colours_and_progress_bars_pass_and_nothing_else(text, shown):
    assert harmless(text) == (text if shown is None else shown)


def test_a_console_moves_the_cursor_where_texts_may_not():
    terminal = Terminal()
    out, sys.stdout = sys.stdout, TerminalStream(terminal)
    try:
        console = make_console()
        console.show_cursor(False)
        console.print(f"[bold]a{EVIL}[/bold]")
        sys.stdout.write(f"b{EVIL}")
    finally:
        sys.stdout = out
    assert "\x1b[?25l" in terminal.getvalue()
    assert not re.search(r"\x1b\]|\x1b\[2J|\x9b", terminal.getvalue())


def test_a_soak_says_how_far_it_is_in_a_line(monkeypatch):
    devices = (
        SoakedDevice("cuda:0", "multiply", 1000, 2, ""),
        SoakedDevice("cuda:1", "multiply", 500, 0, ""),
    )
    lost = SoakedDevice("cuda:2", "copy", 5, 0, "signal 9")
    terminal, other = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", other)
    monkeypatch.setattr(sys, "stderr", terminal)
    with soaking(is_asked=False) as (_, tell):
        tell(SoakProgress(12.3, 600.0, devices, 71))
        tell(SoakProgress(13.0, 600.0, (*devices, lost), None))
    lines = [line.removesuffix("\x1b[K") for line in terminal.getvalue().split("\r")]
    assert lines[1:] == [
        "soak 12 of 600 s  multiply  1,500 comparisons, 2 wrong  71 °C",
        "soak 13 of 600 s  multiply  1,505 comparisons, 2 wrong  lost: cuda:2",
    ]
    assert other.getvalue() == ""


def test_a_download_says_each_file_once_with_its_size(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    with download_progress(quiet=False) as tell:
        for done in (0, 1_000_000, 12_340_000):
            tell(done, 12_340_000, "train-images.gz")
        tell(0, None, "labels")
    assert stream.getvalue().splitlines() == [
        "fetching train-images.gz (12.3 MB)",
        "fetching labels",
    ]
    with download_progress(quiet=True) as tell:
        assert tell is None
