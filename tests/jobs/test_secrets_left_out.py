"""What was resolved as a secret is in no file, page or message but the streams of its task."""

from __future__ import annotations

import base64
import json
import secrets as random
import shlex
import textwrap
from urllib.parse import quote

import pytest

from command_line import tarmac
from tarmac import masking
from tarmac.jobs import secret_marks
from tarmac.masking import values

__all__ = ["tarmac"]

# None has a form of its own, and each is in an encoding that differs from itself.
_CANARIES = {
    "variable": 'grüne Kanarie/1 "7"',
    "file": "first line of it/\nsecond $line `of` it\n",
    "named": "kanarienvogel'&<3>",
    "user": "ann:kanarie?pass+word",
    "sweep-1": "einzelnes wort/eins",
    "sweep-2": "einzelnes wort/zwei",
    "store": "Stieglitz/und+Zeisig/0123",
    "tracker": "0123456789abcdef0123456789abcdef01234567",
}


def _as_another_process() -> None:
    """Forget what this process has resolved, as the next command has not resolved it."""
    values._known.clear()
    values._in_order.clear()
    values._words.clear()
    values._learned.clear()
    secret_marks._read.clear()


def _encoded(canary: str) -> list[str]:
    lines = canary.strip().splitlines()
    content = canary.strip().encode()
    return [
        *lines,
        *(quote(line, safe="") for line in lines),
        *(quote(line) for line in lines),
        *(json.dumps(line)[1:-1] for line in lines),
        *(shlex.quote(line) for line in lines),
        *(base64.b64encode(b"x" * n + content + b"y").decode() for n in range(3)),
        base64.urlsafe_b64encode(b"user:" + content).decode(),
        content.hex(),
    ]


def _shown_of(canary: str, text: str) -> list[str]:
    """Return what a text shows of a secret, in any encoding."""
    content = canary.strip().encode()
    inner = [
        base64.b64encode(b"x" * n + content).decode()[-(-n * 8 // 6) : (n + len(content)) * 8 // 6]
        for n in range(3)
    ]
    lines = canary.strip().splitlines()
    shown = [*lines, *(quote(line, safe="") for line in lines), *inner, content.hex()]
    shown += [json.dumps(line)[1:-1] for line in lines]
    return [one for one in shown if one in text]


def _leaks(text: str) -> list[str]:
    return [one for canary in _CANARIES.values() for one in _shown_of(canary, text)]


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job whose tasks print all of their secrets in all encodings, and fail."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SOURCE", _CANARIES["variable"])
    monkeypatch.setenv("NAMED", _CANARIES["named"])
    monkeypatch.setenv("LOGIN", _CANARIES["user"])
    for number in (1, 2):
        monkeypatch.setenv(f"SWEEP_{number}", _CANARIES[f"sweep-{number}"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", _CANARIES["store"])
    monkeypatch.setenv("WANDB_API_KEY", _CANARIES["tracker"])
    (tmp_path / "key").write_text(_CANARIES["file"])
    printed = tmp_path / "printed"
    words = [one for canary in _CANARIES.values() for one in _encoded(canary)]
    printed.write_text("".join(f"line: {word} of it\n" for word in words))
    (tmp_path / "job.yaml").write_text(
        f"""
name: canary
tasks:
  - name: all
    command: [sh, -c, 'cat {printed}; cat {printed} >&2; echo CUDA out of memory; exit 3']
    secrets: {{A: {{env: SOURCE}}, B: {{file: key}}, C: {{name: s, key: k}}, D: {{env: LOGIN}}}}
  - name: other
    command: [sh, -c, 'cat {printed}; exit 4']
    sweep: {{grid: {{number: [1, 2]}}}}
    secrets: {{E: {{env: SWEEP_1}}, F: {{env: SWEEP_2}}}}
"""
    )
    return tmp_path / "job.yaml"


def test_a_secret_is_shown_by_nothing_but_the_streams_of_its_task(job, tmp_path, tarmac):
    options = ("--secret", "s/k=env:NAMED", "--output", str(tmp_path / "runs"))
    shown = [*tarmac("run", str(job), "--dry-run", *options)[1:]]
    shown += tarmac("convert", str(job), "--to", "tarmac")[1:]
    code, *ran = tarmac("run", str(job), *options)
    assert code == 1, ran
    shown += ran
    (run,) = (tmp_path / "runs").glob("canary-*")
    _as_another_process()
    for arguments in (
        ("report", str(run), "--html", "-"),
        ("report", str(run / "tasks/000000-all"), "--html", "-"),
        ("ps", "--json", "--output", str(tmp_path / "runs")),
        ("runs", "show", str(run)),
        ("runs", "show", str(run), "--json"),
        ("run", "--resume", str(run), "--secret", "s/k=env:NAMED"),
    ):
        shown += tarmac(*arguments)[1:]
    for text in shown:
        assert not _leaks(text)
    assert "line: (hidden) of it" in shown[6]
    for path in run.rglob("*"):
        if path.is_file() and path.name not in ("stdout", "stderr"):
            assert not _leaks(path.read_text(errors="surrogateescape")), path
    # A task's own streams are its own.
    _, out, _ = tarmac("logs", str(run), "all")
    assert all(_shown_of(canary, out) for canary in _CANARIES.values())


def test_a_program_of_hkubes_that_fails_with_a_secret_is_told_of_without_it(
    tmp_path, monkeypatch, tarmac
):
    pytest.importorskip("bson", reason="needs pip install 'tarmac-gpu[hkube]'")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("NAMED", "kanarienvogel 7")
    definition = {
        "name": "canary",
        "algorithmEnv": {"WORD": {"secretKeyRef": {"name": "s", "key": "k"}}},
        "options": {
            "tarmac": {
                "protocol": "plain",
                "command": ["sh", "-c", "echo it is $WORD; echo no $WORD here >&2; exit 3"],
            }
        },
    }
    (tmp_path / "alg.json").write_text(json.dumps(definition))
    (tmp_path / "in.json").write_text("[1]")
    code, *shown = tarmac(
        *("run", str(tmp_path / "alg.json"), "--input", str(tmp_path / "in.json")),
        *("--secret", "s/k=env:NAMED", "--output", str(tmp_path / "runs")),
    )
    assert code == 1, shown
    (run,) = (tmp_path / "runs").iterdir()
    _as_another_process()
    pages = [tarmac("report", str(run), "--html", "-")[1]]
    pages += [tarmac("report", str(task), "--html", "-")[1] for task in (run / "tasks").iterdir()]
    assert any("(hidden)" in page for page in pages)
    for text in (*shown, *pages):
        assert "kanarienvogel" not in text
    for path in run.rglob("*"):
        if path.is_file() and path.name not in ("stdout", "stderr"):
            assert b"kanarienvogel" not in path.read_bytes(), path


def test_marks_of_secrets_are_for_their_owner_and_their_key_is_elsewhere(job, tmp_path, tarmac):
    options = ("--secret", "s/k=env:NAMED", "--output", str(tmp_path / "runs"))
    tarmac("run", str(job), *options)
    (run,) = (tmp_path / "runs").glob("canary-*")
    (key,) = (tmp_path / "state").rglob("*.key")
    assert {oct(path.stat().st_mode & 0o777) for path in (key, run / "secret-marks.json")} == {
        "0o600"
    }
    # Who has the run without the key can try nothing.
    marks = json.loads((run / "secret-marks.json").read_text())["marks"]
    values.remember(_CANARIES["tracker"])
    assert not {*marks} & {*values.fingerprints(b"another key")}
    assert {*marks} & {*values.fingerprints(key.read_bytes())}


def test_what_programs_say_of_a_failure_is_told_without_secrets(tmp_path, monkeypatch, tarmac):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("WORD", "kanarienvogel 7")
    # The error names what cannot be fetched, and a command that is not there.
    (tmp_path / "job.yaml").write_text(
        """
name: canary
secrets: {A: {env: WORD}}
tasks:
  - {name: a, command: [./kanarienvogel 7]}
  - name: b
    command: 'true'
    inputs: [{from: 'http://ann:pw12@127.0.0.1:9/x?X-Amz-Signature=kanarienvogel%207', to: x}]
"""
    )
    _, out, err = tarmac("run", str(tmp_path / "job.yaml"), "--output", str(tmp_path / "runs"))
    (run,) = (tmp_path / "runs").glob("canary-*")
    journal = (run / "journal.jsonl").read_text()
    record = run / "job-run.json"
    assert record.stat().st_mode & 0o777 == 0o600
    assert "http://(hidden)@127.0.0.1:9/x" in journal or "http://127.0.0.1:9/x" in journal
    for text in (out, err, journal):
        assert "kanarienvogel" not in text.replace("./kanarienvogel 7", "")
        assert "pw12" not in text
    _as_another_process()
    _, page, _ = tarmac("report", str(run), "--html", "-")
    assert "X-Amz-Signature" not in page


@pytest.mark.parametrize("value", ["abc", "pw12!", "x-1-y"])
def test_a_short_secret_is_left_out_as_a_word_of_its_own(value):
    masking.remember(value)
    assert masking.without_known(f"it is {value}, but not a{value}b") == (
        f"it is (hidden), but not a{value}b"
    )


@pytest.mark.parametrize("value", ["", "1", "no", "\n"])
def test_what_may_stand_anywhere_is_no_secret(value):
    masking.remember(value)
    assert masking.without_known("1 no, 2 yes\n") == "1 no, 2 yes\n"


@pytest.mark.parametrize("width", [64, 76])
def test_a_long_secret_is_left_out_where_base64_has_it_in_lines(width):
    value = "correct horse battery staple, " * 6 + "rubber duck"
    masking.remember(value)
    lines = "\n".join(textwrap.wrap(base64.b64encode(value.encode()).decode(), width))
    left = masking.without_known(lines).replace("(hidden)", "").strip("\n=")
    # The last character also holds bits that are not the secret's.
    assert len(left) <= 1


def test_a_secret_is_left_out_wherever_base64_has_it():
    value = random.token_hex(8)
    masking.remember(value)
    for before in range(9):
        for after in range(4):
            text = base64.b64encode(b"b" * before + value.encode() + b"a" * after).decode()
            assert "(hidden)" in masking.without_known(text)


def test_a_secret_that_holds_another_is_left_out_whole():
    masking.remember("sparrow")
    masking.remember("sparrow-hawk")
    assert masking.without_known("a sparrow-hawk and a sparrow") == "a (hidden) and a (hidden)"


def test_learned_secrets_are_left_out_of_texts_that_are_no_unicode():
    masking.remember("sparrow-hawk")
    marks = masking.fingerprints(b"key")
    values._known.clear()
    masking.learn(b"key", [*marks, "1:2:3", "x"])
    assert masking.without_known("\ud800 ä sparrow-hawk ü") == "\ud800 ä (hidden) ü"
