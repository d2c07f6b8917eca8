"""A run's directory is whole at every moment, and says how it stands."""

from __future__ import annotations

import fcntl
import json
import math
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tarmac import RequestError, TarmacError, runs

SAMPLES = Path(__file__).parent / "samples"
SAMPLE = SAMPLES / "run-schema-1.json"


def create(output: Path, **changes) -> runs.Run:
    fields = {
        "workload": "digits-mlp",
        "command": ["tarmac", "train", "digits-mlp"],
        "configuration": {"epochs": 3, "settings": {"hidden": 8}},
        "dataset": {"name": "digits"},
        "device": {"type": "cpu"},
        "versions": {"python": "3.11"},
        "seed": 0,
        "git": None,
        "expectation": None,
    }
    return runs.Run.create(output, **(fields | changes))


def remove(run: runs.Run) -> None:
    catalogue = runs.Catalogue((runs.TRAINING,), run.path.parent)
    catalogue.remove(catalogue.find(run.name))


def row(epoch: int, accuracy: float = 0.5) -> dict[str, float]:
    return {"epoch": epoch, "loss": 1.0, "accuracy": accuracy, "samples_per_s": 9.0, "seconds": 1.0}


def test_a_run_reads_back_as_it_was_written(tmp_path):
    run = create(tmp_path)
    run.update(metrics={"test_accuracy": 0.9}, status="completed", ended_at=runs.now())
    again = runs.Run.open(run.path)
    assert again.record == run.record
    assert again.metrics["test_accuracy"] == 0.9
    assert repr(again).endswith("completed: test_accuracy=0.9>")


@pytest.mark.parametrize(
    ("schema", "pid"), [(1, 4522), (2, 7001), (3, 8123), (4, 9245), (5, 31909), (6, 40177)]
)
def test_a_run_of_an_older_schema_can_always_be_read(tmp_path, schema, pid):
    shutil.copy(SAMPLES / f"run-schema-{schema}.json", tmp_path / "run.json")
    run = runs.Run.open(tmp_path)
    assert run.record.workload == "digits-mlp"
    assert run.record.sessions[0].pid == pid
    assert run.record.judged_by == runs.JudgedBy("accuracy", "max")
    assert run.history == []


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"schema_version": 8}, RequestError, r"newer Tarmac \(schema 8, this one reads up to 7\)"),
        ({"status": "flying"}, TarmacError, "is damaged: status"),
        ({"surprise": 1}, TarmacError, "is damaged: surprise"),
        (
            {"schema_version": "2"},
            TarmacError,
            "is damaged: schema_version is '2', expected a number",
        ),
        ({"schema_version": None}, TarmacError, "is damaged: schema_version is None"),
        ({"schema_version": 0}, TarmacError, "is damaged: schema_version is 0"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused_in_words(tmp_path, change, error, message):
    content = json.loads(SAMPLE.read_text()) | change
    (tmp_path / "run.json").write_text(json.dumps(content))
    with pytest.raises(error, match=message):
        runs.Run.open(tmp_path)


def test_a_record_of_this_version_that_lacks_a_field_is_damaged(tmp_path):
    run = create(tmp_path)
    record = json.loads((run.path / "run.json").read_text())
    for name in record.keys() - {"schema_version"}:
        less = {key: value for key, value in record.items() if key != name}
        (run.path / "run.json").write_text(json.dumps(less))
        with pytest.raises(TarmacError, match=rf"run\.json is damaged: {name}: Field required"):
            runs.Run.open(run.path)


def test_a_directory_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(RequestError, match="is not a run"):
        runs.Run.open(tmp_path)
    (tmp_path / "run.json").write_text('{"schema_ver')
    with pytest.raises(TarmacError, match=r"run\.json is damaged"):
        runs.Run.open(tmp_path)


def test_looking_at_a_run_never_keeps_another_from_working_on_it(tmp_path):
    run = create(tmp_path)
    is_over = threading.Event()
    seen = set()

    def look() -> None:
        while not is_over.is_set():
            seen.add(run.status)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(20):
            with runs.Run.open(run.path).working():
                pass
    finally:
        is_over.set()
        looker.join()
    assert seen <= {"interrupted", "running"}


def test_two_who_look_at_an_interrupted_run_see_that_it_is(tmp_path):
    run = create(tmp_path)
    with run.working():
        assert run.status == "running"
    with (run.path / ".lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert run.status == "interrupted"


def test_a_run_that_is_held_is_neither_removed_nor_worked_on(tmp_path):
    run = create(tmp_path)
    with run.working():
        for refused in (lambda: remove(run), run.held().__enter__):
            with pytest.raises(RequestError, match="is in use by"):
                refused()
    remove(run)
    assert not run.path.exists()
    with pytest.raises(RequestError, match="has been removed"), run.working():
        pass


def test_a_hostile_workload_name_stays_in_its_directory(tmp_path):
    run = create(tmp_path, workload="../a'; echo foo/b")
    assert run.path.parent == tmp_path
    assert runs.Run.open(run.path).record.workload == "../a'; echo foo/b"


def test_a_torn_last_line_is_dropped_and_any_other_named(tmp_path):
    run = create(tmp_path)
    run.append_metrics(row(1))
    path = run.path / "metrics.jsonl"
    with path.open("ab") as file:
        file.write(b'{"epoch": 2, "lo')
    assert [r["epoch"] for r in run.history] == [1]
    run.truncate_metrics(lambda _: True)
    run.append_metrics(row(2))
    assert [r["epoch"] for r in run.history] == [1, 2]
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    with pytest.raises(TarmacError, match=r"metrics\.jsonl:1 is damaged"):
        _ = run.history


def test_rows_past_a_checkpoint_are_dropped(tmp_path):
    run = create(tmp_path)
    for epoch in (1, 2, 3):
        run.append_metrics(row(epoch))
    run.truncate_metrics(lambda r: r["epoch"] <= 2)
    assert [r["epoch"] for r in run.history] == [1, 2]


HOLD = """
import sys, pathlib
from tarmac import runs
run = runs.Run.open(pathlib.Path(sys.argv[1]))
with run.working():
    print("working", flush=True)
    sys.stdin.readline()
"""


def test_a_run_is_worked_on_by_one_process_until_that_ends_however_it_ends(tmp_path):
    run = create(tmp_path)
    assert run.status == "interrupted"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "working\n"
    again = runs.Run.open(run.path)
    assert again.status == "running"
    with pytest.raises(RequestError, match="in use by another process"), again.working():
        pass
    with pytest.raises(RequestError, match="is in use by") as caught:
        remove(again)
    assert f"kill {process.pid}" in caught.value.hint
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert again.status == "interrupted"
    with again.working():
        assert len(again.record.sessions) == 2
    remove(again)
    assert not run.path.exists()


def test_runs_are_found_by_path_name_prefix_and_as_the_latest(tmp_path):
    first, second = create(tmp_path), create(tmp_path, workload="other")
    first.update(created_at="2026-01-01T00:00:00Z")
    for reference in (str(second.path), second.name, "other", second.record.id[:6], "latest"):
        assert runs.resolve(reference, tmp_path).path == second.path
    with pytest.raises(RequestError, match="no run 'nope'") as caught:
        runs.resolve("nope", tmp_path)
    assert first.name in caught.value.hint
    create(tmp_path, workload="other-too")
    with pytest.raises(RequestError, match="'other' is not unique"):
        runs.resolve("other", tmp_path)


def test_a_broken_run_does_not_hide_the_others(tmp_path):
    run = create(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    found, broken = runs.list_runs(tmp_path)
    assert [r.name for r in found] == [run.name]
    assert [b.path.name for b in broken] == ["broken"]


def test_runs_lie_where_tarmac_runs_says(tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_RUNS", str(tmp_path))
    assert runs.default_output() == tmp_path
    monkeypatch.delenv("TARMAC_RUNS")
    assert runs.default_output() == Path("runs")


def test_a_comparison_shows_only_what_differed(tmp_path):
    first = create(tmp_path)
    second = create(tmp_path, configuration={"epochs": 3, "settings": {"hidden": 16}, "new": 1})
    for run, accuracies in ((first, (0.5, 0.6)), (second, (0.7,))):
        for epoch, accuracy in enumerate(accuracies, start=1):
            run.append_metrics(row(epoch, accuracy))
    first.update(metrics={"test_accuracy": 0.6})
    comparison = runs.compare([(run.name, runs.facts_of(run)) for run in (first, second)])
    assert comparison.differences == {
        "configuration.settings.hidden": [8, 16],
        "configuration.new": [None, 1],
    }
    assert comparison.metrics == {"test_accuracy": [0.6, None]}
    assert comparison.curves == [[0.5, 0.6], [0.7]]


def test_tensorboard_reads_the_run_directory_without_doubled_points(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed; run: pip install 'tarmac-gpu[tensorboard]'",
    )
    run = create(tmp_path)
    with run.events(first_step=1) as events:
        for step in (1, 2, 3):
            events.scalar("accuracy", step / 10, step)
    with run.events(first_step=3) as events:
        events.scalar("accuracy", 0.9, 3)
    read = accumulator.EventAccumulator(str(run.path))
    read.Reload()
    assert [(e.step, round(e.value, 3)) for e in read.Scalars("accuracy")] == [
        (1, 0.1),
        (2, 0.2),
        (3, 0.9),
    ]


def test_tensorboard_reads_any_value_and_tag(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed; run: pip install 'tarmac-gpu[tensorboard]'",
    )
    values = {"größe": -0.0, "large": 1e300, "small": -1e300, "x" * 300: 1.5}
    with runs.Run(tmp_path, create(tmp_path).record).events(first_step=0) as events:
        for tag, value in values.items():
            events.scalar(tag, value, 10**12)
    read = accumulator.EventAccumulator(str(tmp_path))
    read.Reload()
    assert {tag: read.Scalars(tag)[0].value for tag in values} == {
        "größe": -0.0,
        "large": math.inf,
        "small": -math.inf,
        "x" * 300: 1.5,
    }
    assert {read.Scalars(tag)[0].step for tag in values} == {10**12}


def test_writing_events_needs_no_tensorboard(tmp_path):
    code = f"""
import sys
sys.modules["tensorboard"] = None
from pathlib import Path
from tarmac.runs.events import EventWriter
EventWriter(Path({str(tmp_path)!r}), first_step=1).scalar("loss", 0.5, 1)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    (file,) = tmp_path.glob("events.out.tfevents.*")
    assert b"loss" in file.read_bytes()


def test_git_state_is_that_of_the_directory(tmp_path):
    assert runs.git_state(tmp_path) is None

    def git(*arguments):
        identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True
        )

    git("init", "-b", "trunk")
    (tmp_path / "file").write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    state = runs.git_state(tmp_path)
    assert (len(state.commit), state.branch, state.dirty) == (40, "trunk", False)
    (tmp_path / "file").write_text("2")
    assert runs.git_state(tmp_path).dirty
