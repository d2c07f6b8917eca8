"""The end of a log that a user sees holds no part of a secret that begins before it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tarmac.cli.views.job_logs import last_lines
from tarmac.executors.ray.says import ending_of
from tarmac.executors.slurm.engine import SlurmEngine
from tarmac.files import log_ends, masked_end
from tarmac.hkube.hosting.logs import last_line
from tarmac.masking import fingerprints, learn, remember, values
from tarmac.monitor.screen import logs as screen_logs
from tarmac.pages.log_end import log_lines
from tarmac.processes.workers import Worker
from tarmac.server.logs import read_end
from tarmac.training.processes import launcher

_SECRET = 'Zq9!vKx+Lü "p<b>7'


@pytest.fixture(autouse=True)
def _secret():
    remember(_SECRET)


def _on_screen(path, monkeypatch):
    look = SimpleNamespace(clean=str)
    work = SimpleNamespace(path=str(path.parent))
    monkeypatch.setattr(screen_logs, "_files_of", lambda _: [path])
    return [span.text for row in screen_logs.log_rows(work, look)[1:] for span in row.line]


def _of_worker(path, _):
    worker = SimpleNamespace(_log=path, _log_start=0, _finish=lambda wait: 1)
    return [Worker.why_ended(worker).removeprefix("its process exited with 1: ")]


def _of_rank(path, _):
    path.rename(path.with_name(launcher._log_name(0, 1, "err")))
    why = launcher._describe({0: SimpleNamespace(exitcode=1)}, path.parent, 1)
    return [why.removeprefix("rank 0 ended with exit code 1: ")]


def _of_slurm(path, _):
    path.rename(path.with_name("0.engine"))
    engine = SimpleNamespace(_files=SimpleNamespace(output=lambda _: path.parent))
    return [SlurmEngine._printed(engine, None, "0")]


_READERS = {
    "run": (4096, lambda path, _: last_lines(path, 10)),
    "report": (2**15, lambda path, _: log_lines(path, 10, path.parent)),
    "serve": (2**16, lambda path, _: read_end(path, path.parent)[0].splitlines()),
    "top": (2**16, _on_screen),
    "HKube": (2**16, lambda path, _: [last_line(path)]),
    "worker": (4096, _of_worker),
    "rank": (4096, _of_rank),
    "Slurm": (4096, _of_slurm),
}


@pytest.mark.parametrize("reader", _READERS)
@pytest.mark.parametrize("num_cut", [1, len(_SECRET) - 1])
def test_a_secret_that_begins_before_the_end_of_a_log_is_shown_in_no_part(
    tmp_path, monkeypatch, reader, num_cut
):
    num_shown, read = _READERS[reader]
    shown_part = len(_SECRET.encode()) - num_cut
    line = "head " * 10 + _SECRET + "z" * (num_shown - shown_part - 1)
    (tmp_path / "stderr").write_text(f"{line}\n")
    (shown,) = read(tmp_path / "stderr", monkeypatch)
    # A page cuts a long line once more, at its end.
    assert shown.startswith("(hidden)zzz")


@pytest.mark.parametrize("reader", _READERS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_line_that_begins_before_the_end_of_a_log_is_not_shown(
    tmp_path, monkeypatch, reader, line_end
):
    num_shown, read = _READERS[reader]
    torn, whole = _SECRET + "z" * 100, "y" * (num_shown - 64)
    (tmp_path / "stderr").write_bytes(f"first\n{torn}{line_end}{whole}{line_end}".encode())
    (shown,) = read(tmp_path / "stderr", monkeypatch)
    assert shown.startswith("yyy")


@pytest.mark.parametrize("num_bytes", range(1, len(_SECRET.encode())))
def test_a_secret_is_masked_wherever_it_is_cut(tmp_path, num_bytes):
    (tmp_path / "stderr").write_text(f"head {_SECRET}")
    assert masked_end(tmp_path / "stderr", num_bytes) == ("(hidden)", False)


def test_a_secret_that_is_known_by_its_marks_is_masked_where_it_is_cut(tmp_path):
    marks = fingerprints(b"k" * 32)
    values._known.clear()
    learn(b"k" * 32, marks)
    (tmp_path / "stderr").write_text("head " * 9 + _SECRET + "z" * 50)
    assert masked_end(tmp_path / "stderr", 60) == ("(hidden)" + "z" * 50, False)


def test_a_log_that_fits_is_shown_from_its_start(tmp_path):
    (tmp_path / "stderr").write_text(f"torn\n{_SECRET}\n")
    assert masked_end(tmp_path / "stderr", 100) == ("torn\n(hidden)\n", True)
    assert masked_end(tmp_path / "stderr", len(f"{_SECRET}\n".encode())) == ("(hidden)\n", False)


def test_no_part_of_a_secret_is_shown_where_masking_makes_the_text_shorter(tmp_path):
    (tmp_path / "stderr").write_text(_SECRET * 2000)
    text, is_whole = masked_end(tmp_path / "stderr", 4096)
    assert not is_whole
    assert set(text.split("(hidden)")) == {""}


def test_a_part_of_a_log_is_read_whatever_length_of_secrets_marks_claim(tmp_path, monkeypatch):
    learn(b"k" * 32, [f"9999999:{'0' * 4}:{'0' * 32}"])
    read = []
    monkeypatch.setattr(log_ends, "masked_text", lambda text: read.append(len(text)) or text)
    (tmp_path / "stderr").write_text("y" * 300_000)
    assert masked_end(tmp_path / "stderr", 4096) == ("y" * 4096, False)
    assert max(read) < 80_000


def test_a_secret_that_a_shortened_line_would_cut_is_masked_first(tmp_path):
    line = "e" * 290 + _SECRET
    (tmp_path / "stderr").write_text(line)
    assert _of_worker(tmp_path / "stderr", None) == ["e" * 290 + "(hidden)"]
    assert ending_of(ValueError(line)).words.endswith("ee(hidden)")


def test_nothing_is_shown_of_what_was_in_a_log_before(tmp_path):
    (tmp_path / "stderr").write_text("before\nafter\n")
    assert masked_end(tmp_path / "stderr", 4096, since=7) == ("after\n", False)
