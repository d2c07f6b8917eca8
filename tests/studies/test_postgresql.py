"""Studies in a real PostgreSQL: the same search, no password in a file, and a server that stops."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import tarmac
from forked import run_python
from tarmac.errors import TarmacError
from tarmac.studies import Study, Workers
from tarmac.studies.evaluation.choice import Chosen
from tarmac.studies.reporter import Silent
from tarmac.studies.study.storage import open_storage
from tarmac.studies.study.writer import StudyWriter
from tarmac.studies.verb import work_on
from tarmac.testing.stand_in import StandIn
from tarmac.testing.stand_in import search_without_networks as search
from waiting import limit_s

_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))

pytestmark = pytest.mark.skipif(
    not _PROGRAMS, reason="PostgreSQL is not installed: apt install postgresql"
)

_PASSWORD = "rosebud-5f2e"


class Server:
    """A PostgreSQL of its own, in a directory that its user may read."""

    def __init__(self, directory: Path, port: int) -> None:
        self.url = f"postgresql://tarmac:{_PASSWORD}@127.0.0.1:{port}/postgres"
        self._data = directory / "data"
        self._port = port
        password = directory / "password"
        password.write_text(_PASSWORD)
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            for path in (directory, password):
                shutil.chown(path, "postgres")
        auth = ["--auth=scram-sha-256", "--username=tarmac", f"--pwfile={password}"]
        self._run("initdb", "--no-sync", "--pgdata", str(self._data), *auth)

    def start(self) -> None:
        options = f"-p {self._port} -k {self._data} -h 127.0.0.1 -F"
        log = str(self._data / "log")
        self._run("pg_ctl", "start", "-w", "-D", str(self._data), "-l", log, "-o", options)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(self._data))

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(_PROGRAMS[-1] / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=limit_s(60))


@pytest.fixture(scope="module")
def server(reserve_port):
    directory = Path(tempfile.mkdtemp(prefix="tarmac-postgresql-"))
    server = Server(directory, reserve_port())
    server.start()
    yield server
    server.stop()
    shutil.rmtree(directory)


def test_a_study_in_postgresql_is_the_one_in_a_journal(make_study, server):
    study = make_study(generations=3, population=6, storage=server.url)
    search(study)
    journal = make_study(generations=3, population=6)
    search(journal)
    again = Study.open(study.path, server.url)
    expected = [(row["params"], row["val_accuracy"]) for row in journal.trials]
    assert [(row["params"], row["val_accuracy"]) for row in again.trials] == expected


def test_no_file_of_a_study_holds_the_password_that_the_command_line_held(tmp_path, server):
    words = (
        "search mlp --set dataset=digits --set neurons=8,16 --set layers=1 --epochs 1 --trials 2"
    )
    options = ["--storage", server.url, "--output", tmp_path]
    done = run_python("-m", "tarmac", *words.split(), *options, timeout=limit_s(120), check=True)
    assert _PASSWORD not in done.stdout + done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "study.json" for path in files)
    assert not [path for path in files if _PASSWORD.encode() in path.read_bytes()]


def test_workers_of_a_cluster_get_the_password_and_no_file_holds_it(tmp_path, server, monkeypatch):
    # Which it is given in, and which is to be as it was for other tests.
    monkeypatch.setenv("TARMAC_STUDY_STORAGE", "")
    study = tarmac.search(
        "digits-mlp",
        space={"hidden": [8, 16, 24]},
        method="brute",
        epochs=1,
        storage=server.url,
        cluster=Workers(on="local", count=2),
        output=tmp_path,
    )
    assert study.status == "completed"
    assert [row["state"] for row in Study.open(study.path, server.url).trials] == 3 * ["complete"]
    assert [*(study.path / "cluster").glob("*/tasks/*-worker*")]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if _PASSWORD.encode() in path.read_bytes()]


def test_a_search_whose_server_stops_says_so_and_goes_on_once_it_is_back(
    make_study, server, monkeypatch
):
    uninterrupted = make_study(generations=3, population=6, storage=server.url)
    search(uninterrupted)
    study = make_study(generations=3, population=6, storage=server.url)

    def stop_server(progress):
        if progress.number == 7:
            server.stop()

    stand_in = StandIn(at_epoch=stop_server)
    chosen = Chosen(evaluator=stand_in, at_once=None, close=lambda: None, summary="")
    monkeypatch.setattr("tarmac.studies.verb.choose_evaluator", lambda *_: chosen)
    try:
        with pytest.raises(TarmacError, match=r"postgresql://tarmac:\*\*\*@.* was lost") as caught:
            work_on(study, Silent(), stop=lambda: False)
        assert f"tarmac search --resume {study.path}" in caught.value.hint
        with pytest.raises(TarmacError, match="cannot be reached"):
            open_storage(server.url, study.path / "journal.log")
    finally:
        server.start()
    again = StudyWriter.open(study.path, server.url)
    search(again)
    assert [row["params"] for row in again.trials] == [
        row["params"] for row in uninterrupted.trials
    ]
    assert all(row["state"] == "complete" for row in again.trials)
