"""What was told as done is on the disk: files, the names that lead to them, lines of journals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarmac import data, runs
from tarmac.files import append_lines, read_lines, replace_file, write_json
from tarmac.hkube.hosting import Ending, Work
from tarmac.hkube.running.history import open_history
from tarmac.jobs import Job, create_run, plan_tasks
from tarmac.jobs.journal import Journal, read_journal
from tarmac.jobs.record import read_record
from tarmac.node import durable
from tarmac.studies.study.storage import open_storage


class Disk:
    """What would be there after a power cut: what somebody has waited for, and nothing else.

    Args:
        root: All that is looked at.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, list[os.DirEntry[str]]] = {root.stat().st_ino: []}
        self.num_waits = 0
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))

    def _watched(self, real):
        def wait(descriptor: int) -> None:
            real(descriptor)
            self.num_waits += 1
            path = Path(f"/proc/self/fd/{descriptor}").resolve()
            number = path.stat().st_ino
            if path.is_dir():
                self._names[number] = [*os.scandir(path)]
            else:
                self._contents[number] = path.read_bytes()

        return wait

    def after_power_cut(self, target: Path) -> Path:
        """Make what is left, and return it."""
        self._make(self._root.stat().st_ino, target)
        return target

    def _make(self, number: int, path: Path) -> None:
        path.mkdir()
        for entry in self._names.get(number, []):
            if entry.is_dir():
                self._make(entry.inode(), path / entry.name)
            else:
                (path / entry.name).write_bytes(self._contents.get(entry.inode(), b""))


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "before"
    path.mkdir()
    return path


@pytest.fixture
def disk(root, monkeypatch):
    return Disk(root, monkeypatch)


def names(path):
    return sorted(str(inner.relative_to(path)) for inner in path.rglob("*") if inner.is_file())


def test_a_file_that_was_written_is_there_with_all_folders_above_it(root, disk, tmp_path):
    write_json(root / "a" / "b" / "c.json", 1)
    (root / "file").write_text("made by another program")
    replace_file(root / "file", root / "a" / "file")
    left = disk.after_power_cut(tmp_path / "after")
    assert names(left) == ["a/b/c.json", "a/file"]
    assert (left / "a" / "file").read_text() == "made by another program"


def test_how_an_attempt_ended_is_there_where_its_node_has_written_it(root, disk, tmp_path):
    durable.replace_file(root / "attempt-1.json", b"ended")
    left = disk.after_power_cut(tmp_path / "after")
    assert (left / "attempt-1.json").read_bytes() == b"ended"


def test_a_journals_durable_line_is_there_with_those_before_it(root, disk, tmp_path):
    path = root / "journal.jsonl"
    append_lines(path, [1])
    append_lines(path, [2], is_durable=True)
    append_lines(path, [3])
    left = disk.after_power_cut(tmp_path / "after")
    assert read_lines(left / "journal.jsonl").values == (1, 2)


def test_a_new_journal_is_there_with_its_durable_line(root, disk, tmp_path):
    append_lines(root / "journal.jsonl", [1], is_durable=True)
    left = disk.after_power_cut(tmp_path / "after")
    assert read_lines(left / "journal.jsonl").values == (1,)


def test_a_training_that_was_begun_is_there(root, disk, tmp_path):
    run = runs.Run.create(
        root / "runs", workload="x", command=[], configuration={}, dataset={}, device={},
        versions={}, seed=0, git=None, expectation=None,
    )  # fmt: skip
    run.append_metrics({"epoch": 1})
    left = runs.Run.open(disk.after_power_cut(tmp_path / "after") / "runs" / run.name)
    assert left.history == [{"epoch": 1}]
    assert left.checkpoints.is_dir()


def test_a_task_that_has_succeeded_is_not_done_again(root, disk, tmp_path):
    job = Job(name="x", command="true")
    run = create_run(job, root, [*plan_tasks(job, root)], root / "runs")
    path = run.path / "journal.jsonl"
    before = disk.num_waits
    with Journal(path) as journal:
        for task in range(20):
            journal.write("started", task=task, name=f"x-{task}", attempt=1)
            outcome = "succeeded" if task < 10 else "failed"
            journal.write(
                "ended", task=task, name=f"x-{task}", outcome=outcome, seconds=1.0, reason=""
            )
    # One wait for each success, and one for the new file's name.
    assert disk.num_waits - before == 11
    left = disk.after_power_cut(tmp_path / "after") / run.path.relative_to(root)
    assert read_record(left).name == "x"
    ends = [event for event in read_journal(left / "journal.jsonl") if event["event"] == "ended"]
    assert [event["task"] for event in ends] == [*range(10)]


def test_a_removed_run_does_not_come_back(root, disk, tmp_path):
    run = runs.Run.create(
        root, workload="x", command=[], configuration={}, dataset={}, device={},
        versions={}, seed=0, git=None, expectation=None,
    )  # fmt: skip
    run.update(status="failed")
    before = disk.after_power_cut(tmp_path / "before-it-is-removed")
    assert (before / run.name).is_dir()
    catalogue = runs.Catalogue((runs.TRAINING,), root)
    catalogue.remove(catalogue.find(run.name))
    left = disk.after_power_cut(tmp_path / "after")
    assert runs.Catalogue((runs.TRAINING,), left).read(
        lambda run: run.kind.summarize(run.path)
    ) == ([], [])


@pytest.mark.parametrize("replace", [False, True])
def test_a_dataset_that_was_taken_over_is_there(root, disk, tmp_path, replace, monkeypatch):
    monkeypatch.setenv("TARMAC_DATA", str(tmp_path / "after"))
    for number in range(1 + replace):
        table = tmp_path / "houses.csv"
        table.write_text("a,b\n" + f"{number},2\n" * 8)
        data.take_over("houses", table, data.Taking(replace=replace), root)
    disk.after_power_cut(tmp_path / "after")
    assert data.load("houses").train.inputs[0, 0] == float(replace)


def test_a_finished_trial_is_there(root, disk, tmp_path):
    optuna = pytest.importorskip("optuna", reason="needs pip install 'tarmac-gpu[search]'")
    study = optuna.create_study(storage=open_storage(None, root / "journal.log"), study_name="x")
    study.tell(study.ask(), 0.5)
    left = disk.after_power_cut(tmp_path / "after")
    again = optuna.load_study(storage=open_storage(None, left / "journal.log"), study_name="x")
    assert [trial.value for trial in again.trials] == [0.5]


def test_a_result_is_there_before_the_journal_says_so(root, disk, tmp_path):
    append_lines(root / "other", [1], is_durable=True)
    with open_history(root, keeps_failures=False) as history:
        before = disk.num_waits
        history.ended([(_ending(index, value=[index]), f"digest-{index}") for index in range(3)])
        # One wait for all results, one for all events, one for the new journal's name.
        assert disk.num_waits - before == 3
        history.ended([(_ending(3, why="error"), "digest-3")])
        assert disk.num_waits - before == 3
    left = disk.after_power_cut(tmp_path / "after")
    with open_history(left, keeps_failures=False) as history:
        for index in range(3):
            earlier = history.take_earlier(f"task-{index}")
            assert history.value(earlier.place) == [index]
        assert not history.has_earlier


def _ending(index, **fields):
    names = {"name": f"task-{index}", "job_id": "x", "pipeline": "p", "node": "n"}
    work = Work(index=index, task_id=f"{index}", algorithm="a", input=[], **names)
    return Ending(work=work, **fields)
