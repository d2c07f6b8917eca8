"""Every verb in directories that users share: what is another's is seen and stays as it is."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from damaged_records import MAKERS
from tarmac import data
from tarmac.cli import main
from tarmac.files import OwnerLock, StorageError

_UNWORDED = re.compile(r"Traceback|Add --debug|pydantic\.dev|ModuleNotFoundError")

READS = {
    "runs list": "good-training",
    "ps --all": "good-job",
    "search list": "good-study",
    "top --once": "no run is active",
    **{f"runs show good-{kind}": f"good-{kind}" for kind in MAKERS},
    "runs logs good-training": "epoch 1",
    **{f"runs logs good-{kind}": "hello" for kind in ("job", "pipeline")},
    "runs logs good-study": "good-study has no logs",
    **{f"report good-{kind} --html -": "<html" for kind in MAKERS},
    **{f"runs compare good-{kind} other-{kind}": f"other-{kind}" for kind in MAKERS},
    "logs good-job": "prepare | hello",
    "search best good-study": "best: network 7",
    "search export good-study": "number,state,",
}

WRITES = [
    *(f"runs rm good-{kind} --yes" for kind in MAKERS),
    "run --resume good-job",
    "cancel good-job",
    "train --resume good-training",
    "search --resume good-study",
]

DATA = {
    "data list": (0, "theirs"),
    "data verify theirs": (0, "train.inputs.npy: ok"),
    "data add theirs --from TABLE --replace": (1, "Operation not permitted|Permission denied"),
    "data add mine --from TABLE": (0, "mine is in "),
}


class Shared:
    """A directory like /tmp, with runs and data of root's that all others may read."""

    def __init__(self, place: Path, second_user: Callable[..., object]) -> None:
        self.place = place
        self.runs = place / "runs"
        self.data = place / "data"
        self.home = place / "home"
        self.table = place / "table.csv"
        self._second_user = second_user
        for folder in (self.runs, self.data):
            folder.mkdir()
            folder.chmod(0o1777)
        self.table.write_text("a,b\n" + "1,2\n" * 8)
        self.home.mkdir()
        self.home.chmod(0o777)

    def run(self, line: str) -> tuple[int, str]:
        """Run a command line; return its exit code and all that it prints."""
        words = [str(self.table) if word == "TABLE" else word for word in line.split()]
        if words[0] != "data":
            words += ["--output", str(self.runs)]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                main(words)
            except SystemExit as end:
                code = int(end.code or 0)
        return code, printed.getvalue()

    def run_as_other(self, line: str) -> tuple[int, str]:
        """Run it as another user, who has a home of their own."""

        def act() -> tuple[int, str]:
            os.environ["HOME"] = str(self.home)
            os.environ["XDG_CACHE_HOME"] = str(self.home / "cache")
            return self.run(line)

        return self._second_user(act)

    def state(self) -> dict[str, str]:
        """Return what all files of root's hold."""
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for folder in (self.runs, self.data)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.stat().st_uid == os.geteuid()
        }


@pytest.fixture
def shared(
    open_directory: Path, second_user: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> Shared:
    found = Shared(open_directory, second_user)
    monkeypatch.setenv("TARMAC_DATA", str(found.data))
    monkeypatch.chdir(open_directory)
    return found


@pytest.fixture
def shared_runs(shared: Shared) -> Shared:
    for kind, make in MAKERS.items():
        for name in ("good", "other"):
            make(shared.runs, f"{name}-{kind}")
    return shared


@pytest.mark.parametrize("line", READS)
def test_the_runs_of_another_user_are_shown(shared_runs: Shared, line: str) -> None:
    # Root's run of it imports what the other user cannot read.
    code, _ = shared_runs.run(line)
    before = shared_runs.state()
    found, said = shared_runs.run_as_other(line)
    assert not _UNWORDED.search(said), said
    assert found == code, said
    assert READS[line] in said
    assert shared_runs.state() == before


@pytest.mark.parametrize("line", WRITES)
def test_the_runs_of_another_user_are_not_changed(shared_runs: Shared, line: str) -> None:
    # On a copy, which imports what the other user cannot read.
    shared_runs.run(line.replace("good-", "other-"))
    shared_runs.run(line.replace("good-", "missing-"))
    before = shared_runs.state()
    code, said = shared_runs.run_as_other(line)
    assert not _UNWORDED.search(said), said
    assert code in (1, 2), said
    assert "good-" in said
    assert shared_runs.state() == before


@pytest.mark.parametrize("line", DATA)
def test_the_data_of_another_user_are_read_and_not_changed(shared: Shared, line: str) -> None:
    data.take_over("theirs", shared.table, data.Taking(), shared.data)
    data.take_over("spare", shared.table, data.Taking(), shared.data)
    shared.run(line.replace("theirs", "spare").replace("mine", "spare"))
    shared.run(line.replace("theirs", "missing").replace("mine", "theirs"))
    before = shared.state()
    code, said = shared.run_as_other(line)
    assert not _UNWORDED.search(said), said
    assert code == DATA[line][0], said
    assert re.search(DATA[line][1], said), said
    assert shared.state() == before
    assert np.asarray(data.load("theirs").train.inputs).size
    assert not [path for path in shared.data.iterdir() if path.name.startswith(".")]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("planted", ["pipe", "link"])
def test_what_another_user_plants_in_a_locks_place_keeps_no_verb_waiting(
    shared: Shared, planted: str
) -> None:
    for kind, make in MAKERS.items():
        for name in ("good", "other"):
            lock = make(shared.runs, f"{name}-{kind}") / ".lock"
            lock.unlink(missing_ok=True)
            os.mkfifo(lock) if planted == "pipe" else lock.symlink_to("elsewhere")
            lock.with_name("journal.log.lock").unlink(missing_ok=True)
            os.mkfifo(lock.with_name("journal.log.lock"))
    for line in [*READS, *WRITES]:
        _, said = shared.run(line)
        assert not _UNWORDED.search(said), (line, said)
    assert not [*shared.runs.rglob("elsewhere")]
    # What cannot be locked cannot be removed: the words say what is in the way.
    said = shared.run("runs rm good-job --yes")[1]
    assert f"cannot lock {shared.runs / 'good-job' / '.lock'}: " in said


@pytest.mark.parametrize("kind", MAKERS)
def test_no_other_user_can_hold_a_run_that_this_one_works_on(
    shared_runs: Shared, second_user: Callable[..., object], kind: str
) -> None:
    path = shared_runs.runs / f"good-{kind}" / ".lock"
    with OwnerLock(path).held(), pytest.raises(StorageError, match="Permission denied"):
        second_user(OwnerLock(path).acquire)
    assert OwnerLock(path).acquire()
