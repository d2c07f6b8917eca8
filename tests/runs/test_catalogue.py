"""Trainings, searches and jobs are one catalogue."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tarmac import RequestError
from tarmac.files import StorageError
from tarmac.jobs import JOB, create_run, parse_job, plan_tasks
from tarmac.run_kinds import index_of
from tarmac.runs import TRAINING, Catalogue, Run
from tarmac.studies import SEARCH
from tarmac.training.verb import instead_of_resuming

KINDS = (TRAINING, SEARCH, JOB)


def training(output: Path, created_at: str, **changes) -> Path:
    run = Run.create(
        output,
        workload="digits-mlp",
        command=[],
        configuration={"epochs": 3},
        dataset={},
        device={},
        versions={},
        seed=0,
        git=None,
        expectation=None,
    )
    run.update(created_at=created_at, **changes)
    return run.path


def search(output: Path, created_at: str) -> Path:
    path = output / "digits-study-1"
    path.mkdir(parents=True)
    winner = {"number": 3, "settings": {"hidden": 32}, "values": {"accuracy": 0.9}, "epochs": 4}
    record = {
        "schema_version": 1,
        "id": path.name,
        "name": "digits",
        "status": "running",
        "created_at": created_at,
        "request": {"workload": "digits-mlp"},
        "settings": {},
        "space": {},
        "fingerprint": "f",
        "train_size": 8,
        "validation_size": 2,
        "best": winner | {"test_accuracy": 0.875},
    }
    (path / "study.json").write_text(json.dumps(record))
    return path


def job(output: Path, created_at: str) -> Path:
    asked = parse_job("{name: hello, command: [echo, hello]}")
    path = create_run(asked, output, [*plan_tasks(asked, output)], output).path
    record = json.loads((path / "job-run.json").read_text()) | {"created_at": created_at}
    (path / "job-run.json").write_text(json.dumps(record))
    return path


@pytest.fixture
def made(tmp_path):
    """Return a training, a search and a job, each newer than the one before."""
    return [
        training(tmp_path, "2026-01-01T00:00:00Z", metrics={"test_accuracy": 0.9}),
        search(tmp_path, "2026-01-02T00:00:00Z"),
        job(tmp_path, "2026-01-03T00:00:00+00:00"),
    ]


def test_all_kinds_are_listed_the_newest_first(tmp_path, made):
    summaries, broken = index_of(tmp_path).summaries()
    assert not broken
    assert [summary.path for summary in summaries] == made[::-1]
    assert [(s.kind, s.status, s.result) for s in summaries] == [
        ("job", "interrupted", "0 of 1 succeeded"),
        ("search", "interrupted", "accuracy 0.9, test_accuracy 0.875"),
        ("training", "interrupted", "accuracy 0.9000"),
    ]
    assert summaries[0].created_at == datetime(2026, 1, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kinds", "position"),
    [((TRAINING,), 0), ((SEARCH,), 1), ((JOB,), 2), ((TRAINING, SEARCH), 1), (KINDS, 2)],
)
def test_latest_is_the_newest_of_the_kinds_that_are_asked_for(tmp_path, made, kinds, position):
    assert Catalogue(kinds, tmp_path).find("latest").path == made[position]


def test_a_run_is_found_by_its_path_its_name_and_how_that_begins(tmp_path, made, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in made:
        for reference in (str(path), path.name, path.name[:8]):
            found = Catalogue(KINDS, tmp_path).find(reference)
            assert found.path.resolve() == path
    with pytest.raises(RequestError, match="'digits-' is not unique"):
        Catalogue(KINDS, tmp_path).find("digits-")
    with pytest.raises(RequestError, match=r"no run 'digits-none' in .* \(training or job\)"):
        Catalogue((TRAINING, JOB), tmp_path).find("digits-none")


def test_a_searchs_winner_is_found_as_a_run_and_goes_with_its_search(tmp_path, made):
    winner = training(made[1] / "best", "2026-01-09T00:00:00Z")
    catalogue = Catalogue(KINDS, tmp_path)
    assert winner in [summary.path for summary in index_of(tmp_path).summaries()[0]]
    assert catalogue.find(winner.name).owner == made[1]
    assert catalogue.find(str(winner)).owner == made[1]
    assert Catalogue((TRAINING,), tmp_path).find(winner.name).path == winner
    assert catalogue.find("latest").path == made[2]
    with pytest.raises(RequestError, match="belongs to digits-study-1"):
        catalogue.remove(catalogue.find(winner.name))
    catalogue.remove(catalogue.find(made[1].name))
    assert not winner.exists()
    assert {path.name for path in tmp_path.iterdir()} == {made[0].name, made[2].name}


WORK = {
    "training": "from tarmac.runs import Run; hold = Run.open(path).working()",
    "search": (
        "from tarmac.studies.study.leases import Leases; hold = Leases(path / 'workers').work()"
    ),
    "job": "from tarmac.jobs.kind import reserved; hold = reserved(path)",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_run_is_not_removed_while_a_process_works_on_it(tmp_path, made, kind):
    path = made[KINDS.index(kind)]
    program = f"import pathlib, sys; path = pathlib.Path(sys.argv[1]); {WORK[kind.name]}\n"
    program += "with hold: print('working', flush=True); sys.stdin.read()\n"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "working\n"
        catalogue = Catalogue(KINDS, tmp_path)
        found = catalogue.find(path.name)
        assert found.kind.summarize(path).status == "running"
        with pytest.raises(RequestError, match=r"in use by|another process works on"):
            catalogue.remove(found)
        assert path.is_dir()
        process.communicate()
    catalogue.remove(found)
    assert not path.exists()


def test_a_record_that_cannot_be_read_hides_no_other_and_is_never_the_latest(tmp_path, made):
    broken = tmp_path / "newest"
    broken.mkdir()
    (broken / "job-run.json").write_text('{"schema_version": 1, "created_at": "2027')
    summaries, failures = index_of(tmp_path).summaries()
    assert len(summaries) == 3
    assert [failure.path for failure in failures] == [broken]
    assert Catalogue(KINDS, tmp_path).find("latest").path == made[2]
    for path in made:
        shutil.rmtree(path)
    # Whoever reads it says what is wrong with it.
    assert Catalogue(KINDS, tmp_path).find("latest").path == broken


def test_runs_are_listed_without_the_packages_of_a_search(tmp_path, made):
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from tarmac.run_kinds import index_of\n"
        "print(len(index_of(Path(sys.argv[1])).summaries()[0]))\n"
        "print([name for name in ('torch', 'optuna') if name in sys.modules])\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "3\n[]\n"


def test_what_is_removed_at_once_is_found_no_more(tmp_path, made):
    catalogue = Catalogue(KINDS, tmp_path)
    found = catalogue.find(made[2].name)
    catalogue.remove(found)
    with contextlib.suppress(RequestError):
        catalogue.remove(found)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in made[:2])


def test_a_search_stands_for_the_training_of_its_winner(tmp_path, made):
    winner = training(made[1] / "best", "2026-01-05T00:00:00Z")
    trainings = Catalogue((TRAINING,), tmp_path)
    for reference in (str(made[1]), made[1].name, made[1].name[:9], "latest"):
        assert trainings.find(reference).path == winner, reference
    assert Catalogue(KINDS, tmp_path).find("latest").path == made[2]
    again = training(made[1] / "best", "2026-01-06T00:00:00Z")
    assert trainings.find(made[1].name).path == again
    newer = training(tmp_path, "2026-01-07T00:00:00Z")
    assert trainings.find("latest").path == newer


def test_a_run_that_is_a_link_is_not_removed_and_told_where_it_leads(tmp_path, made):
    link = tmp_path / "runs"
    link.mkdir()
    (link / "lent").symlink_to(made[0])
    catalogue = Catalogue(KINDS, link)
    with pytest.raises(RequestError, match=f"lent is a link to {made[0]}") as caught:
        catalogue.remove(catalogue.find("lent"))
    assert f"tarmac runs rm {made[0]}\n" in str(caught.value)
    assert made[0].exists()
    assert [path.name for path in link.iterdir()] == ["lent"]


@pytest.mark.parametrize("name", ["a-link", "z-link"])
def test_a_link_beside_the_run_that_it_leads_to_does_not_stand_for_it(tmp_path, made, name):
    link = tmp_path / name
    link.symlink_to(made[0])
    catalogue = Catalogue(KINDS, tmp_path)
    for reference in (name, str(link)):
        with pytest.raises(RequestError, match=f"{name} is a link to {made[0]}"):
            catalogue.remove(catalogue.find(reference))
    assert catalogue.find(made[0].name).path == made[0]
    assert catalogue.find(f"{made[0]}/.").path == made[0]


def test_a_run_that_cannot_be_removed_whole_stays_one(tmp_path, made, monkeypatch):
    (made[2] / "tasks" / "a").mkdir(parents=True)

    def refuse(path, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", f"{path}/a")

    catalogue = Catalogue(KINDS, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", refuse)
        with pytest.raises(StorageError, match=rf"cannot delete {made[2]}/tasks/a: Permission"):
            catalogue.remove(catalogue.find(made[2].name))
    catalogue.remove(catalogue.find(made[2].name))
    assert not made[2].exists()


@pytest.mark.parametrize("kinds", [(JOB,), (TRAINING, JOB)])
def test_a_search_is_told_from_what_was_looked_for(tmp_path, made, kinds):
    with pytest.raises(RequestError) as caught:
        Catalogue(kinds, tmp_path).find(made[1].name)
    is_for_jobs = "is a search, not a job\nSee it: tarmac search show" in str(caught.value)
    assert is_for_jobs == (TRAINING not in kinds)


def test_of_a_search_without_a_winner_it_is_said_what_to_type(tmp_path, made):
    with pytest.raises(RequestError, match="is a search without a trained winner") as caught:
        Catalogue((TRAINING,), tmp_path).find(made[1].name)
    assert f"tarmac search --resume {made[1]}" in str(caught.value)


def test_the_winner_of_a_search_is_resumed_as_the_search(tmp_path, made):
    winner = training(made[1] / "best", "2026-01-05T00:00:00Z", status="completed")
    run = Run.open(winner)
    assert f"tarmac search --resume {made[1]} --trials N" in instead_of_resuming(run)
    assert "tarmac runs show" in instead_of_resuming(Run.open(made[0]))


def test_a_completed_run_is_named_from_where_it_lies(made, monkeypatch):
    monkeypatch.chdir(made[0].parent)
    run = Run.open(Path(made[0].name))
    assert instead_of_resuming(run) == f"See it: tarmac runs show {made[0].name}"
