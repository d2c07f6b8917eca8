"""``tarmac report`` writes a page of any run, of several, and says where it is."""

from __future__ import annotations

import fcntl
import json
import os

import pytest

import tarmac as library
from tarmac import training
from tarmac.jobs import Job
from tarmac.runs import Run, read_predictions
from tarmac.training.session import mistakes


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train digits for an epoch, once for all tests here."""
    return training.train("digits-mlp", epochs=1, output=tmp_path_factory.mktemp("runs"))


def test_a_page_is_written_beside_the_run_and_its_path_printed(tarmac, trained):
    code, out, err = tarmac("report", str(trained.path))
    assert (code, err) == (0, "")
    first, last = out.splitlines()
    assert first.startswith(f"training {trained.name} completed: accuracy 0.")
    assert last == f"report {trained.path / 'report.html'}"
    assert "<!doctype html>" in (trained.path / "report.html").read_text()[:20]


def test_mistakes_are_looked_at_once_and_agree_with_the_run(tarmac, trained, monkeypatch):
    # The test set takes several batches.
    monkeypatch.setattr(mistakes, "_BATCH", 100)
    tarmac("report", str(trained.path), "--html", "page.html")
    found = read_predictions(trained.path)
    right = sum(row[number] for number, row in enumerate(found.confusion))
    assert found.num_samples == found.num_test == 359
    assert right / 359 == pytest.approx(trained.metrics["test_accuracy"], abs=0.02)
    wrong = [mistake.confidence for mistake in found.mistakes]
    assert wrong == sorted(wrong, reverse=True)
    before = (trained.path / "predictions.json").stat()
    tarmac("report", str(trained.path), "--html", "page.html")
    assert (trained.path / "predictions.json").stat().st_mtime_ns == before.st_mtime_ns


def test_the_page_can_go_to_standard_output(tarmac, trained):
    code, out, _ = tarmac("report", str(trained.path), "--no-pictures", "--html", "-")
    assert code == 0
    assert out.startswith("<!doctype html>")
    assert out.endswith("</html>\n")


def test_several_runs_are_written_into_the_directory_at_hand(tarmac, trained, tmp_path):
    other = training.train("digits-mlp", epochs=1, output=tmp_path, settings={"hidden": 8})
    code, out, _ = tarmac("report", str(trained.path), str(other.path))
    assert code == 0
    assert out.splitlines()[-1] == "report report.html"
    page = (tmp_path / "report.html").read_text()
    assert "configuration.settings.hidden" in page
    # Only a page of one run shows pictures.
    assert not (other.path / "predictions.json").exists()


def _made(output, **changes):
    run = Run.create(
        output,
        workload="digits-mlp",
        command=[],
        configuration={"workload": "digits-mlp"},
        dataset={},
        device={},
        versions={},
        seed=0,
        git=None,
        expectation=None,
    )
    run.update(**{"status": "completed"} | changes)
    return run


def test_a_run_whose_model_cannot_be_asked_is_shown_without_pictures(tarmac, tmp_path):
    run = _made(tmp_path)
    code, out, err = tarmac("report", str(run.path))
    assert code == 0
    assert f"report {run.path / 'report.html'}" in out
    assert err == f"without pictures: run {run.name} has no weights yet\n"


def test_a_file_of_the_user_s_own_is_not_run_to_look_at_a_run(tarmac, tmp_path):
    (tmp_path / "evil.py").write_text("raise SystemExit('was run')")
    run = _made(tmp_path, configuration={"workload": f"{tmp_path}/evil.py:workload"})
    run.model.write_bytes(b"")
    code, _, err = tarmac("report", str(run.path))
    assert code == 0
    assert "is a user's own file" in err


def test_a_run_that_is_not_there_is_a_wrong_request(tarmac):
    code, _, err = tarmac("report", "nothing")
    assert code == 2
    assert "there is no run 'nothing'" in err


def test_a_run_of_a_newer_version_is_a_wrong_request(tarmac, tmp_path):
    run = _made(tmp_path)
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(record | {"schema_version": 999}))
    code, _, err = tarmac("report", str(run.path))
    assert code == 2
    assert "newer Tarmac" in err


def test_a_page_that_cannot_be_written_is_said(tarmac, tmp_path):
    run = _made(tmp_path)
    (tmp_path / "a-file").write_text("")
    code, _, err = tarmac("report", str(run.path), "--html", str(tmp_path / "a-file" / "x.html"))
    assert code == 1
    assert "x.html" in err


def test_the_page_of_a_job_s_task_is_written_into_its_directory(tarmac, tmp_path):
    job = library.run(Job(name="hello", command="echo hello"), output=tmp_path / "runs")
    (task,) = job.path.glob("tasks/*-*")
    code, out, _ = tarmac("report", str(task))
    assert code == 0
    assert out == f"report {task / 'report.html'}\n"


def test_a_directory_is_no_file_for_the_page(tarmac, tmp_path):
    run = _made(tmp_path)
    code, _, err = tarmac("report", str(run.path), "--html", str(tmp_path))
    assert code == 2
    assert "directory" in err


def test_a_run_that_is_named_twice_is_one(tarmac, tmp_path):
    run = _made(tmp_path)
    code, out, _ = tarmac("report", "--no-pictures", str(run.path), f"{run.path}/")
    assert code == 0
    assert out.splitlines()[-1].endswith(f"{run.name}/report.html")


def test_what_is_no_run_is_not_put_beside_others(tarmac, tmp_path):
    run = _made(tmp_path)
    (tmp_path / "check.json").write_text("{}")
    code, _, err = tarmac("report", str(run.path), str(tmp_path / "check.json"))
    assert code == 2
    assert "check.json has its own page; only runs can be compared" in err


def test_a_pipe_is_written_into_and_stays_one(tarmac, tmp_path):
    run = _made(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Open at both ends, and with room for all of the page: neither end waits for the other.
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 2**20)
        code, _, _ = tarmac("report", "--no-pictures", str(run.path), "--html", str(pipe))
        assert code == 0
        assert os.read(reader, 15) == b"<!doctype html>"
        assert pipe.is_fifo()
    finally:
        os.close(reader)
