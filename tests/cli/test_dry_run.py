"""``tarmac run --dry-run`` says what a run would be refused for."""

from __future__ import annotations

import json

import pytest

LACKS = {
    "secrets: {TOKEN: {env: TARMAC_NO_SUCH_VARIABLE}}": "the variable TARMAC_NO_SUCH_VARIABLE is",
    "secrets: {TOKEN: {file: no-token}}": "no-token: No such file",
    "inputs: [{from: no-data.csv}]": "input no-data.csv: no such file",
}


@pytest.mark.parametrize(("rest", "said"), LACKS.items())
def test_a_dry_run_says_what_is_not_there(tarmac, tmp_path, monkeypatch, rest, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(f"{{name: x, command: 'true', {rest}}}")
    code, out, err = tarmac("run", "job.yaml", "--dry-run")
    assert (code, "$ sh -c true" in out) == (0, True)
    assert f"cannot be run here: {'secret for TOKEN: ' * ('secrets' in rest)}{said}" in err
    code, out, err = tarmac("run", "job.yaml", "--dry-run", "--json")
    assert said in "".join(json.loads(out)[0]["refusals"])
    code, out, err = tarmac("run", "job.yaml")
    assert (code, said in err, [*tmp_path.glob("runs/*")]) == (2, True, [])


@pytest.mark.parametrize("workload", ["digit-mlp", "nope.py:workload"])
def test_a_dry_run_says_that_a_workload_is_not_there(tarmac, tmp_path, monkeypatch, workload):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(f"{{name: x, workload: '{workload}'}}")
    _, _, err = tarmac("run", "job.yaml", "--dry-run")
    assert "cannot be run here: task 'x': " in err
    code, _, err = tarmac("run", "job.yaml")
    assert (code, [*tmp_path.glob("runs/*")]) == (2, [])
