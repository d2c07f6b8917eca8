"""A record that is no file, as another user may have made it, is named by all verbs alike."""

from __future__ import annotations

import os

import pytest

RECORDS = {"training": "run.json", "job": "job-run.json", "study": "study.json"}
ALL = ("runs show {run}", "runs compare {run} {run}", "report {run}")
VERBS = {
    "training": (*ALL, "eval {run}", "export {run} --to onnx", "train --resume {run}"),
    "job": (*ALL, "logs {run}", "ps {run}", "cancel {run}", "run --resume {run}"),
    "study": (*ALL, "search show {run}", "search best {run}", "search --resume {run}"),
}


@pytest.fixture(autouse=True)
def _shared(monkeypatch):
    monkeypatch.setenv("TARMAC_RUNS", "shared")


def make_pipe(path):
    os.mkfifo(path)


def make_link(path):
    path.symlink_to("/dev/zero")


def make_folder(path):
    path.mkdir()


@pytest.mark.parametrize("make", [make_pipe, make_link, make_folder])
@pytest.mark.parametrize(("kind", "verb"), [(kind, verb) for kind in VERBS for verb in VERBS[kind]])
def test_a_named_run_whose_record_is_no_file_is_answered_as_in_the_list(
    tarmac, tmp_path, kind, verb, make
):
    record = tmp_path / "shared/run" / RECORDS[kind]
    record.parent.mkdir(parents=True)
    make(record)
    _, out, _ = tarmac("runs", "list")
    _, is_named, reason = out.splitlines()[0].partition(f"cannot read shared/run/{record.name}: ")
    assert is_named
    for run in ("shared/run", "run", "r"):
        code, _, err = tarmac(*verb.format(run=run).split())
        assert (code, f"shared/run/{record.name}: {reason}" in err) == (1, True), (run, err)
