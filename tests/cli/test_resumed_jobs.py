"""``tarmac run --resume``: what it says of a job file that is named or has changed."""

from __future__ import annotations

import json

import pytest


def test_job_files_beside_resume_are_refused_with_both_commands(tarmac):
    code, _, err = tarmac("run", "a b.yaml", "--resume", "x y")
    assert code == 2
    assert "expected job files or --resume RUN, not both" in err
    assert "tarmac run --resume 'x y'" in err
    assert "tarmac run 'a b.yaml'" in err


def test_a_resume_says_that_the_job_file_has_changed(tarmac, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("{name: x, command: 'false'}")
    assert tarmac("run", "job.yaml")[0] == 1
    assert "has changed" not in tarmac("run", "--resume", "latest", "--dry-run")[2]
    file.write_text("{name: x, command: 'true'}")
    _, out, err = tarmac("run", "--resume", "latest", "--dry-run")
    assert "$ sh -c false" in out
    assert f"note: {file} has changed since; the run keeps its original job" in err
    assert json.loads(tarmac("run", "--resume", "latest", "--dry-run", "--json")[1])
    file.unlink()
    assert "has changed" not in tarmac("run", "--resume", "latest", "--dry-run")[2]


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_what_has_succeeded_is_not_judged_again(tarmac, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SURE", "once")
    text = "name: x\ntasks:\n- {name: a, command: 'true', secrets: {S: {env: SURE}}}\n"
    text += "- {name: b, command: test -e there}\n"
    (tmp_path / "job.yaml").write_text(text.replace("test -e there", f"test -e {tmp_path}/there"))
    assert tarmac("run", "job.yaml")[0] == 1
    monkeypatch.delenv("SURE")
    (tmp_path / "there").touch()
    code, out, err = tarmac("run", "--resume", "latest", *arguments)
    assert code == 0, err
    assert "SURE" not in out + err
