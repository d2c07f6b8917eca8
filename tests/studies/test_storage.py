"""Where trials are kept: journals that were torn or damaged, databases that are not there."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import threading

import pytest
from optuna.trial import TrialState, create_trial

from tarmac.errors import RequestError, TarmacError
from tarmac.files import journal_text, read_lines
from tarmac.files.holders import claim
from tarmac.runs import RunIndex
from tarmac.studies import Study, find_study, list_studies
from tarmac.studies.study.glance import glance_search
from tarmac.studies.study.kind import SEARCH
from tarmac.studies.study.leases import Leases
from tarmac.studies.study.storage import masked, open_storage
from tarmac.studies.study.writer import StudyWriter
from tarmac.testing.stand_in import search_without_networks as search


def test_a_torn_last_line_is_dropped_and_the_study_goes_on(make_study):
    study = make_study(generations=1, population=4)
    search(study)
    journal = study.path / "journal.log"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code":5,"worker')
    again = Study.open(study.path)
    assert len(again.trials) == 4
    assert journal.read_bytes() == whole


def test_a_study_on_a_file_system_that_cannot_be_written_is_looked_at(make_study):
    study = make_study(generations=1, population=4)
    search(study)
    path, expected = str(study.path), study.trials
    mounted = subprocess.run(["mount", "--bind", path, path], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("a directory can be mounted by root only: sudo pytest")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", path], check=True)
        again = find_study(path)
        assert again.trials == expected
        assert again.status == study.status
    finally:
        subprocess.run(["umount", path], check=True)


@pytest.mark.parametrize("bad", [b'{"op_code": 5, "wor\n', b"[1, 2]\n", b"\xff\xfe\n"])
def test_a_damaged_line_is_named_and_nothing_is_changed(make_study, bad):
    study = make_study(generations=1, population=4)
    search(study)
    journal = study.path / "journal.log"
    lines = journal.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:9], bad, *lines[10:]])
    journal.write_bytes(damaged)
    with pytest.raises(TarmacError, match=r"journal.log:10: the journal is damaged") as caught:
        Study.open(study.path).trials  # noqa: B018
    assert journal.read_bytes() == damaged
    # The hint's commands keep what stands before it.
    assert "head -n 9" in caught.value.hint
    journal.write_bytes(b"".join(lines[:9]))
    search(StudyWriter.open(study.path))
    assert len(Study.open(study.path).trials) == 4


@pytest.mark.parametrize(
    ("op_code", "field", "value"), [(4, "datetime_start", 17), (8, "user_attr", {})]
)
def test_a_line_that_optuna_cannot_take_is_named_by_its_own_number(
    make_study, op_code, field, value
):
    study = make_study(generations=1, population=4)
    search(study)
    journal = study.path / "journal.log"
    lines = list(read_lines(journal).values)
    at = next(n for n, line in enumerate(lines) if line["op_code"] == op_code)
    lines[at] = {**lines[at], field: value}
    journal.write_text(journal_text(lines))
    with pytest.raises(TarmacError, match=rf"journal\.log:{at + 1}: the journal is dam") as caught:
        Study.open(study.path).trials  # noqa: B018
    assert "Error" not in caught.value.message
    assert f"head -n {at} " in caught.value.hint


def test_a_study_whose_process_was_killed_before_its_first_trial_is_read_and_goes_on(make_study):
    study = make_study(generations=1, population=4)
    (study.path / "journal.log").unlink()
    again = Study.open(study.path)
    assert (again.trials, again.status) == ([], "interrupted")
    assert (study.path / "journal.log").read_bytes() == b""
    search(StudyWriter.open(study.path))
    assert len(Study.open(study.path).trials) == 4


def test_what_reads_a_study_has_nothing_to_write_it_with(make_study):
    study = Study.open(make_study().path)
    writes = {name for name in dir(StudyWriter) if not name.startswith("_")} - set(dir(Study))
    assert writes >= {"add_trial", "create", "end", "mark", "set_state", "tell", "update"}
    for name in writes:
        assert not hasattr(study, name)
    with pytest.raises(AttributeError):
        study.record = None


def test_a_lock_that_a_killed_process_held_holds_up_nobody(make_study):
    study = make_study(generations=1, population=2, retain=1.0, method="random", trials=1)
    (study.path / "journal.log.lock").touch()
    assert study.trials == []


def test_a_database_that_cannot_be_reached_is_said_to_be(tmp_path):
    with pytest.raises(TarmacError, match=r"the database sqlite:////.*cannot be reached"):
        open_storage(f"sqlite:///{tmp_path}/nowhere/study.db", tmp_path / "journal.log")
    with pytest.raises(RequestError, match="which is not a database URL"):
        open_storage("study.db", tmp_path / "journal.log")


def test_a_missing_driver_is_named_and_no_password_is_shown(tmp_path):
    with pytest.raises(RequestError, match="driver of mysql://me:") as caught:
        open_storage("mysql://me:secret@127.0.0.1/db", tmp_path / "journal.log")
    assert "secret" not in str(caught.value)
    assert "pip install pymysql" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("--storage=postgresql://me:s/cr:t@host/db", "--storage=postgresql://me:***@host/db"),
        ("redis://:secret@host", "redis://:***@host"),
        (
            "postgresql://me@host/db?password=secret&sslpassword=other&port=1",
            "postgresql://me@host/db?password=***&sslpassword=***&port=1",
        ),
        ("sqlite:///x.db", "sqlite:///x.db"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
    ],
)
def test_passwords_are_masked_wherever_a_url_may_hold_them(text, expected):
    assert masked(text) == masked(expected) == expected


def test_a_password_is_asked_for_again(make_study):
    study = make_study()
    study.update(storage=masked("postgresql://me:secret@host/db"))
    with pytest.raises(
        RequestError, match=r"the password of postgresql://me:\*\*\*@host/db is not"
    ):
        StudyWriter.open(study.path).storage  # noqa: B018


def test_a_study_can_live_in_a_database(make_study, tmp_path):
    study = make_study(generations=2, population=6, storage=f"sqlite:///{tmp_path}/study.db")
    search(study)
    again = Study.open(study.path)
    journal = make_study(generations=2, population=6)
    search(journal)
    assert [row["params"] for row in again.trials] == [row["params"] for row in journal.trials]
    assert not (study.path / "journal.log").exists()


def test_a_study_that_is_gone_from_its_database_is_said_to_be(make_study, tmp_path):
    study = make_study(storage=f"sqlite:///{tmp_path}/study.db")
    (tmp_path / "study.db").unlink()
    with pytest.raises(TarmacError, match="is not in sqlite:"):
        Study.open(study.path).trials  # noqa: B018


def test_a_lease_ends_with_its_block_and_is_held_until_then(tmp_path):
    leases = Leases(tmp_path / "workers")
    assert leases.living() == []
    with leases.work() as name:
        assert leases.living() == [name]
        seen = []
        thread = threading.Thread(target=lambda: seen.append(leases.is_alive(name)))
        thread.start()
        thread.join()
        assert seen == [True]
    assert leases.living() == []
    assert not leases.is_alive(name)
    assert not leases.is_alive("")
    assert not leases.is_alive(None)


def test_many_that_ask_at_once_all_find_the_dead_dead(tmp_path):
    leases = Leases(tmp_path)
    for round_ in range(50):
        names = [f"host-{round_}-{number}" for number in range(20)]
        for name in names:
            (tmp_path / name).touch()
        seen = []
        ready = threading.Barrier(4)

        def ask(names=names, seen=seen, ready=ready):
            ready.wait()
            seen.extend(name for name in names if leases.is_alive(name))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == []


@pytest.mark.parametrize("is_shared", [False, True])
def test_lists_keep_dead_leases_that_a_search_removes(make_study, tmp_path, is_shared):
    study = make_study(is_shared=is_shared)
    lease = study.path / "workers" / "host-7-abcd"
    lease.parent.mkdir(exist_ok=True)
    dead = dataclasses.replace(claim(10.0, is_kernel_locked=False), start_ticks=1)
    lease.write_text(json.dumps(dataclasses.asdict(dead)) if is_shared else "")
    before = {*tmp_path.rglob("*")}
    index = RunIndex(("search",), lambda _: SEARCH, study.path.parent, tmp_path / "index.json")
    assert [run.status for run in index.summaries()[0]] == ["interrupted"]
    assert [found.status for found in list_studies(study.path.parent)[0]] == ["interrupted"]
    assert find_study(study.path).status == glance_search(study.path).status == "interrupted"
    assert {*tmp_path.rglob("*")} - {tmp_path / "index.json"} == before
    assert study.leases.remove_dead() == []
    assert not lease.exists()


def test_a_space_that_was_edited_is_noticed(make_study):
    study = make_study()
    path = study.path / "study.json"
    path.write_text(path.read_text().replace("1024", "2048"))
    with pytest.raises(TarmacError, match="the space has changed since the study started"):
        Study.open(study.path).trials  # noqa: B018


def test_studies_are_found_by_path_name_and_beginning(make_study, tmp_path):
    study = make_study()
    root = tmp_path / "runs"
    assert find_study(str(study.path)).name == study.name
    assert find_study(study.name, root).name == study.name
    assert find_study("stud", root).name == find_study("latest", root).name == study.name
    with pytest.raises(RequestError, match=r"there is no run 'n{3000}'"):
        find_study("n" * 3000, root)
    with pytest.raises(RequestError, match=r"No search is there\..* --output DIR"):
        find_study("other", tmp_path / "empty")
    with pytest.raises(RequestError, match="there is no run 'other'"):
        find_study("other", root)
    broken = root / "broken"
    broken.mkdir()
    (broken / "study.json").write_text("{")
    found, cannot = list_studies(root)
    assert [one.name for one in found] == [study.name]
    assert cannot[0].path == broken
    (broken / "study.json").write_text('{"schema_version": 99}')
    with pytest.raises(RequestError, match="was written by a newer Tarmac"):
        Study.open(broken)


def test_no_error_of_a_study_or_its_networks_holds_a_secret_of_the_environment(
    make_study, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", "tiger-lily-8157")
    study = make_study()
    study.add_trial(create_trial(state=TrialState.WAITING))
    study.mark(0, "error", "HTTP 403 for tiger-lily-8157")
    study.end("failed", error="no data for tiger-lily-8157")
    assert study.record.error == "no data for (hidden)"
    stored = [path.read_text() for path in study.path.rglob("*") if path.is_file()]
    assert "HTTP 403 for (hidden)" in "".join(stored)
    assert "tiger-lily" not in "".join(stored)
