"""Logs of any program: what is found in them, whatever they are written in."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import RECORDED

from tarmac.checks import LogReport, read_catalogue, read_log
from tarmac.checks.kernel_log import MARKS
from tarmac.checks.reading.prefilter import Prefilter
from tarmac.checks.rules.patterns import ErrorPattern, all_patterns, find_in
from tarmac.errors import RequestError
from waiting import limit_s

ROOT = Path(__file__).parents[2]
CLEAN = Path(__file__).parent / "logs" / "clean"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
TIMEOUT = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808"
PATTERNS = [pattern for pattern in all_patterns() if not isinstance(pattern, ErrorPattern)]


def read(text: str | bytes):
    data = text if isinstance(text, bytes) else text.encode()
    return read_log(io.BytesIO(data))


def found(text: str | bytes) -> dict[str, tuple[int, int, int]]:
    """Return the first line, the last line and the count of each failure in a log."""
    return {f.code: (f.first_line, f.last_line, f.count) for f in read(text).findings}


def recorded_texts(code: str) -> list[str]:
    """Return the texts of a failure's recorded evidence that show it."""
    texts = []
    for evidence in RECORDED[code]:
        inventory = evidence.inventory
        texts += [*evidence.texts, *(probe.text for probe in evidence.probes)]
        texts += [inventory.driver.nvml_error or "", "\n".join(inventory.kernel_log)]
        texts += [gpu.error or "" for gpu in inventory.gpus]
    return [text for text in texts if code in find_in(text)]


def other_lines(count: int):
    for number in range(count):
        yield f"2026-05-01 12:00:{number % 60:02} INFO step {number} loss 0.{number} memory 8.2 GiB"


@pytest.mark.parametrize("code", RECORDED)
def test_recorded_texts_are_found_among_a_thousand_lines_with_their_own_code(code):
    texts = recorded_texts(code)
    assert texts or not read_catalogue()[code].is_printed
    for text in texts:
        lines = [*other_lines(1_000)]
        lines[600:600] = text.splitlines()
        codes = found("\n".join(lines))
        hidden = {hidden for other in codes for hidden in read_catalogue()[other].hides}
        assert code in codes or code in hidden
        if code in codes:
            first, _, _ = codes[code]
            assert 600 < first <= 600 + len(text.splitlines())


def test_every_failure_that_has_a_text_has_one_recorded():
    with_text = {failure.code for failure in read_catalogue().values() if failure.is_printed}
    assert with_text <= RECORDED.keys()
    assert with_text == {code for code in RECORDED if recorded_texts(code)}


@pytest.mark.parametrize("code", dict.fromkeys(pattern.code for pattern in PATTERNS))
def test_a_pattern_is_never_dropped_for_want_of_a_literal(code):
    for pattern in PATTERNS:
        if pattern.code == code:
            assert_literals_stand_where_it_matches(pattern)


def assert_literals_stand_where_it_matches(pattern):
    prefilter = Prefilter(pattern.literals)

    @settings(max_examples=9, deadline=None, database=None, derandomize=True)
    @given(st.from_regex(re.compile(pattern.source, re.ASCII)), st.integers(0, 9))
    def holds(text, shift):
        assert pattern.regex.search(text)
        data = b"x" * shift + text.encode()
        assert [*prefilter.find(data, 0, len(data))]

    holds()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_the_prefilter_finds_what_a_plain_search_finds(data):
    words = st.text("abcAB =é\n", min_size=4, max_size=6)
    literals = data.draw(
        st.lists(st.text("abc =", min_size=4, max_size=6), min_size=1, max_size=9, unique=True)
    )
    text = "".join(data.draw(st.lists(st.one_of(words, st.sampled_from(literals))))).encode()
    lower = text.lower()
    plain = {
        (place, literal)
        for literal in literals
        for place in range(len(text))
        if lower.startswith(literal.encode(), place)
    }
    assert {*Prefilter(literals).find(text, 0, len(text))} == plain


def test_lines_are_numbered_and_counted():
    log = f"a\n{OOM}\nb\n{TIMEOUT}\n{OOM}\n\n{OOM}"
    assert found(log) == {"oom": (2, 7, 3), "nccl-timeout": (4, 4, 1)}
    assert read(log).num_lines == 7
    assert read(log + "\n").num_lines == 7
    assert read("").num_lines == 0
    assert not read("").ok


def test_causes_hide_their_consequences():
    log = f"RuntimeError: {OOM}\nProcess 1234 has 38.21 GiB memory in use.\n"
    assert [*found(log)] == ["mem-held"]


def test_failures_come_before_warnings():
    levels = [f.level for f in read(f"NVRM: Xid (PCI:0000:01:00): 48, pid=1, DBE\n{OOM}").findings]
    assert levels == ["failure", *levels[1:]]
    assert "failure" not in levels[2:]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(f"a\r\n{OOM}\r\n".encode(), id="CRLF"),
        pytest.param(f"a\n{OOM}".encode("utf-16"), id="UTF-16 with a mark"),
        pytest.param(f"a\n{OOM}".encode("utf-16-le"), id="UTF-16, little end first"),
        pytest.param(f"a\n{OOM}".encode("utf-16-be"), id="UTF-16, big end first"),
        pytest.param(f"\ufeffa\n{OOM}".encode(), id="UTF-8 with a mark"),
        pytest.param(f"café\n{OOM} é".encode("latin-1"), id="Latin-1"),
        pytest.param(b"\0" * 5000 + f"a\n{OOM}\n".encode(), id="NULs"),
        pytest.param(b"a\n\x1b[31;1mCUDA\x1b[0m out \x1b[4mof memory\x1b[m\n", id="ANSI"),
        pytest.param(
            b"a\n" + b"".join(b"\r%3d%%|###   | " % n for n in range(100)) + OOM.encode(),
            id="a progress bar",
        ),
        pytest.param(b"a\n" + b"1/9 [=>...]\b\b\b\b" * 50 + OOM.encode(), id="backspaces"),
        pytest.param(f"a\n[rank3]: {OOM}\n".encode(), id="torchrun"),
        pytest.param(f"a\nworker-0  | {OOM}\n".encode(), id="compose"),
        pytest.param(
            b"{}\n" + json.dumps({"log": OOM + "\n", "stream": "stderr"}).encode(), id="Docker"
        ),
        pytest.param(b"a\n" + b"x" * 3_000_000 + OOM.encode() + b"y" * 3_000_000, id="a long line"),
    ],
)
def test_a_log_is_read_whatever_it_is_written_in(data):
    assert found(data) == {"oom": (2, 2, 1)}
    (finding,) = read(data).findings
    assert "out of memory" in finding.text
    assert not {*finding.text} & {*"\r\n\b\0\x1b"}
    assert len(finding.text) < 400


@pytest.mark.parametrize(
    "log",
    [
        "a\nRuntimeError: CUDA out\nof memory. Tried\nb",
        "a\nRuntimeError: CUDA\n   out of memory\nb",
        "a\n[rank3]: RuntimeError: CUDA out of\n[rank3]: memory. Tried\nb",
        "a\n2026-05-01T12:00:00.123Z CUDA out\n2026-05-01T12:00:00.124Z of memory\n",
        "a\n│ CUDA out      │\n│ of memory     │\n",
        'a\n{"log":"CUDA out\\n"}\n{"log":"of memory\\n"}\n',
    ],
)
def test_a_message_may_be_broken_between_two_lines(log):
    assert found(log) == {"oom": (2, 2, 1)}
    (finding,) = read(log).findings
    assert "CUDA out of memory" in finding.text


def test_a_message_below_a_line_that_begins_as_it_does_is_found_in_its_own_line():
    fault = "Memory access fault by GPU node-1 (Agent handle: 0x5fa7) on address (nil)."
    assert found(f"memory 8.2 GiB\n{fault}\nmemory 8.2 GiB\n") == {"illegal-access": (2, 2, 1)}


def test_a_line_of_json_that_is_nested_deeply_is_read_as_it_stands():
    line = f'{{"log": "RuntimeError: CUDA out of memory", "a": {"[" * 9_000}{"]" * 9_000}}}'
    assert found(f"a\n{line}\n{TIMEOUT}\n") == {"oom": (2, 2, 1), "nccl-timeout": (3, 3, 1)}


def test_an_error_beside_the_message_of_a_line_of_json_is_read():
    missing = 'could not select device driver "nvidia" with capabilities: [[gpu]]'
    line = json.dumps({"level": "error", "msg": "failed to start", "error": missing})
    assert found(f"a\n{line}\n") == {"toolkit-missing": (2, 2, 1)}


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({"level": "warning", "msg": "CUDA out of memory"}, "note"),
        ({"levelname": "WARNING", "message": "RuntimeError: CUDA out of memory"}, "note"),
        ({"severity": "Warn", "message": "CUDA out of memory"}, "note"),
        ({"log": json.dumps({"level": "warn", "msg": "CUDA out of memory"}) + "\n"}, "note"),
        ({"level": "info", "msg": "CUDA out of memory"}, "failure"),
        ({"level": "error", "msg": "CUDA out of memory"}, "failure"),
        ({"level": "error", "msg": "No CUDA GPUs are available"}, "failure"),
        ({"level": 40, "msg": "CUDA out of memory"}, "failure"),
    ],
)
def test_a_warning_in_a_line_of_json_is_a_note(fields, level):
    assert [finding.level for finding in read(json.dumps(fields)).findings] == [level]


@pytest.mark.parametrize(
    ("log", "code", "level"),
    [
        (
            "ValueError: Free memory on device (3.41/79.1 GiB) on startup is less than desired GPU "
            "memory utilization (0.9, 71.19 GiB).",
            *("mem-held", "failure"),
        ),
        (
            "RuntimeError: CUDA error: device doesn't have valid Grid license",
            *("vgpu-unlicensed", "failure"),
        ),
        (
            "RuntimeError: DataLoader worker (pid 2) is killed by signal: Bus error.",
            *("shm-small", "failure"),
        ),
        (
            "UserWarning: Found GPU0 NVIDIA B200 which is of cuda capability 10.0.",
            *("arch-unlisted", "warning"),
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 94, pid=7, name=python3, Contained",
            *("xid-contained", "warning"),
        ),
    ],
)
def test_an_exception_is_a_failure_also_where_a_check_only_warns_of_its_cause(log, code, level):
    assert [(finding.code, finding.level) for finding in read(f"a\n{log}\n").findings] == [
        (code, level)
    ]


def test_shared_memory_that_is_full_is_no_full_disk():
    full = "RuntimeError: unable to write to file </torch_1_2>: No space left on device (28)"
    assert [*found(f"a\n{full}\n")] == ["shm-small"]


def test_a_controller_that_does_not_answer_has_refused_no_request():
    line = "sbatch: error: Batch job submission failed: Unable to contact slurm controller"
    assert [*found(line)] == ["slurm-silent"]


def test_the_end_of_a_process_is_a_failure_where_no_other_is_found():
    ended = "RuntimeError: Engine core initialization failed. See root cause above."
    assert found(f"a\n{ended}\n") == {"process-lost": (2, 2, 1)}
    assert found(f"{OOM}\n{ended}\n") == {"oom": (1, 1, 1)}
    warned = "WARNING: CUDA out of memory, retrying with a smaller batch"
    assert found(f"{warned}\n{ended}\n") == {"oom": (1, 1, 1), "process-lost": (2, 2, 1)}


@pytest.mark.parametrize("before", ["", "[rank3]: ", "2026-05-01 12:00:00 ERROR loop: "])
def test_an_exception_without_words_is_found_behind_any_prefix(before):
    assert found(f"a\n{before}MemoryError\n") == {"host-memory": (2, 2, 1)}


def test_words_of_two_lines_that_are_no_message_are_not_joined():
    assert found("NCCL WARN a\nb Connection refused\n") == {}


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pieces_may_end_anywhere(size):
    class Slowly(io.BytesIO):
        def read1(self, _size=-1):
            return super().read(size)

    log = f"\x1b[31ma\x1b[0m\r\n{OOM}\r\nb\r\n{TIMEOUT}\r\n{OOM}\n".encode()
    report = read_log(Slowly(log))
    assert {f.code: f.count for f in report.findings} == {"oom": 2, "nccl-timeout": 1}
    assert report.num_lines == 5


def test_secrets_and_names_are_taken_out_of_what_is_shown(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "open-sesame-7")
    line = f"{OOM} open-sesame-7 WANDB_API_KEY=0123456789 https://me:pw123@host /home/alice/x.py"
    (finding,) = read(line).findings
    for word in ("sesame", "0123456789", "pw123", "alice"):
        assert word not in finding.text
    assert finding.text.endswith("~/x.py")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x1f\x8b\x08\0\0\0", "zcat"),
        (b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 20, "not text"),
    ],
)
def test_what_is_no_text_is_refused(data, said):
    with pytest.raises(RequestError, match=said):
        read(data)


def test_a_file_that_cannot_be_read_is_said(tmp_path):
    with pytest.raises(RequestError, match="is a directory"):
        read_log(tmp_path)
    with pytest.raises(RequestError, match="No such file"):
        read_log(tmp_path / "none.log")


def tarmac(*arguments: str, **options):
    return subprocess.run(
        [sys.executable, "-m", "tarmac", *arguments], check=False, capture_output=True, **options
    )


@pytest.mark.parametrize(
    ("log", "code"),
    [(OOM, 1), ("all is well", 0), ("", 2), (b"\x7fELF" + bytes(range(256)), 2)],
)
def test_the_exit_code_tells_whether_something_was_found(log, code):
    data = log if isinstance(log, bytes) else log.encode()
    assert tarmac("check", "--read", "-", input=data).returncode == code


def test_json_has_the_published_form():
    jsonschema = pytest.importorskip("jsonschema")
    report = json.loads(tarmac("check", "--read", "-", "--json", input=OOM.encode()).stdout)
    schema = json.loads((ROOT / "docs" / "check-read.schema.json").read_text())
    jsonschema.validate(report, schema)
    assert (report["ok"], report["num_lines"], report["is_whole"]) == (False, 1, True)
    assert [finding["code"] for finding in report["findings"]] == ["oom"]


def test_a_note_alone_is_nothing_found():
    finding = read(OOM).findings[0]
    note = finding.model_copy(update={"level": "note"})
    assert not LogReport(name="x", num_lines=1, findings=(finding, note)).ok
    assert LogReport(name="x", num_lines=1, findings=(note,)).ok


@pytest.mark.parametrize("other", [("torch",), ("--quick",), ("--html", "x.html")])
def test_what_says_how_to_check_is_refused(other):
    done = tarmac("check", "--read", "-", *other, input=b"")
    assert done.returncode == 2
    assert b"--read does not go with" in done.stderr


def test_memory_does_not_grow_with_the_log():
    class Endless(io.RawIOBase):
        def __init__(self, line: bytes) -> None:
            self.left = 16
            self.piece = line * (2**20 // len(line))

        def read(self, _size: int = -1) -> bytes:
            self.left -= 1
            return self.piece if self.left >= 0 else b""

    read(OOM)
    for line in (b"epoch 1 loss 0.5\n", b"5%|###  |\r", b"x", f"{OOM}\n".encode() + b"y" * 9000):
        tracemalloc.start()
        read_log(Endless(line))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 12 * 2**20


def test_ctrl_c_ends_an_endless_pipe_and_what_was_found_is_said():
    reader = subprocess.Popen(
        [sys.executable, "-m", "tarmac", "check", "--read", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    # More than a pipe holds, so the reader has begun when all is written.
    reader.stdin.write(f"{OOM}\n".encode() + b"more\n" * 100_000)
    reader.stdin.flush()
    reader.send_signal(signal.SIGINT)
    out, _ = reader.communicate(timeout=limit_s(60))
    assert reader.returncode == 130
    assert b"[oom]" in out


def test_every_mark_of_the_kernels_lines_is_long_enough_to_be_looked_for():
    assert all(len(mark.strip()) >= 4 for mark in MARKS)


@pytest.mark.parametrize("log", sorted(CLEAN.glob("*.log")), ids=lambda log: log.stem)
def test_a_clean_log_of_a_real_run_shows_nothing(log):
    catalogue = read_catalogue()
    findings = read_log(log).findings
    assert [f.code for f in findings if not catalogue[f.code].harmless] == []


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: successful NUMA node read from SysFS had negative value (-1)",
        "ValueError: Unable to register cuDNN factory: my own failure",
    ],
)
def test_what_ended_a_program_is_not_called_harmless(line):
    text = f'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n{line}\n'
    assert read_log(io.BytesIO(text.encode())).findings == ()


def test_the_clean_logs_are_of_thirty_programs_and_none_is_empty():
    sizes = [log.stat().st_size for log in CLEAN.glob("*.log")]
    assert len(sizes) >= 30
    assert min(sizes) > 0


@pytest.mark.parametrize("num_letters", range(58, 80, 3))
@pytest.mark.parametrize("names", [False, True])
def test_a_token_that_the_shown_part_of_a_long_line_would_cut_is_masked(num_letters, names):
    token = "hf_abcdefghijklmnopqrstuvwxyz"
    error = "RuntimeError: CUDA out of memory. "
    line = f"{'x ' * 150}{token} {'y' * num_letters}{error}{'z' * (num_letters + 90)} {token} w"
    (finding,) = read_log(io.BytesIO(f"{line}\n".encode()), names=names).findings
    assert error in finding.text
    assert len(finding.text) <= 300
    shown_parts = [token[:7], token[-7:]]
    assert names or not any(part in finding.text for part in shown_parts)
