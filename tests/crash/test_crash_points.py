"""Wherever a verb that writes crashes, nothing is lost, and the same command or --resume succeeds.

A crash is SIGKILL, half a write and SIGKILL, EIO, or a full disk, at the n-th call that changes a
directory. `make test` tries some points, `make test-crash` all. `TARMAC_CRASH_SEED=7` draws others.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from random import Random

import pytest
from crash_points import KINDS, SHIM, Crash, CrashShell, Ended, build_shim
from crash_verbs import GOOD, VERBS, Verb, may_change, prepare

from shared import made_once
from tarmac.cli import main
from tarmac.files import Readings
from tarmac.monitor.run_discovery import RunDiscovery

SEED = os.environ.get("TARMAC_CRASH_SEED", "0")

# `make test-crash` tries every point in so many tests of each verb.
NUM_SHARES = 4

UNWORDED = re.compile(r"Traceback|Add --debug|Exception ignored|terminate called")
# Hidden files that stay: locks, and what says who has taken one over.
LOCKS = (".lock", ".lock.lease", ".after")


@pytest.fixture(scope="module")
def library() -> Path:
    """Return the library that crashes, of one path for all workers: they share its forks."""
    return made_once("shim", build_shim) / SHIM


@pytest.fixture
def trial(library, tmp_path, capsys):
    """Return a function that makes the trial of a verb."""
    return lambda name: Trial(VERBS[name], library, tmp_path, capsys)


class Trial:
    """Crashes one verb again and again, in the same directory with the same files.

    Attributes:
        num_calls: How many calls change the directory where nothing crashes.
    """

    def __init__(self, verb: Verb, library: Path, root: Path, capsys) -> None:
        self.verb = verb
        self._shell = CrashShell(library, root / "work")
        self._kept = root / "kept"
        self._capsys = capsys
        self._kept.mkdir()
        self._restore()
        prepare(verb, self._shell)
        shutil.rmtree(self._kept)
        shutil.copytree(self._directory, self._kept, symlinks=True)
        whole = self._shell.run(*verb.words)
        assert whole.returncode == 0, whole.output
        assert whole.num_calls, "the library has counted nothing"
        self.num_calls = whole.num_calls
        self._result = verb.made(self._directory)
        assert not self._left_behind()

    @property
    def _directory(self) -> Path:
        return self._shell.directory

    def crash(self, crash: Crash) -> None:
        """Crash the verb, and see that all is well then, and that it can be repeated."""
        self._restore()
        ended = self._shell.run(*self.verb.words, crash=crash)
        try:
            self._check_end(ended, crash)
            self._check_files()
            self._check_lists()
            if self.verb.states is not None:
                assert self.verb.made(self._directory) in (*self.verb.states, self._result)
            if ended.returncode or self._left_behind():
                # Whoever comes next removes what was left.
                self._repeat()
            assert self.verb.made(self._directory) in (self._result, *self.verb.others)
            self._check_files()
            # What the disk has refused to remove once is removed by whoever comes again.
            refused = crash.kind == "error" and ended.call.startswith(("unlink", "rmdir"))
            assert refused or not self._left_behind()
        except BaseException as error:
            error.add_note(f"{crash}, at {ended.call or 'no call'}: {ended}")
            raise

    def _restore(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        shutil.copytree(self._kept, self._directory, symlinks=True)

    def _check_end(self, ended: Ended, crash: Crash) -> None:
        assert not UNWORDED.search(ended.output)
        assert ended.returncode in ((0, 1) if crash.kind in ("error", "full") else (0, 1, -9))

    def _check_files(self) -> None:
        """See that each file is there that was, with what was in it."""
        for path in self._kept.rglob("*"):
            name = str(path.relative_to(self._kept))
            if path.is_file() and not may_change(self.verb, name):
                assert (self._directory / name).read_bytes() == path.read_bytes(), name

    def _check_lists(self) -> None:
        for words in (["runs", "list"], ["ps", "--all"]):
            with pytest.raises(SystemExit) as caught:
                main([*words, "--output", str(self._directory / "runs")])
            shown = "".join(self._capsys.readouterr())
            assert caught.value.code in (None, 0), shown
            assert not UNWORDED.search(shown)
            assert "cannot be read" not in shown
            names = GOOD if words[0] == "runs" else ("good-job", "good-pipeline")
            for name in names:
                assert name in shown or may_change(self.verb, f"runs/{name}/run.json")
        RunDiscovery(self._directory / "runs", Readings()).look()

    def _repeat(self) -> None:
        again = self._shell.run(*(self.verb.again(self._directory) or self.verb.words))
        assert again.returncode == 0, again.output
        assert not UNWORDED.search(again.output)

    def _left_behind(self) -> list[str]:
        return [
            str(path.relative_to(self._directory))
            for path in self._directory.rglob(".*")
            if not path.name.endswith(LOCKS)
        ]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_that_crashes_loses_nothing_and_can_be_repeated(trial, name):
    tried = trial(name)
    draws = Random(f"{SEED} {name}")
    for _ in range(tried.verb.num_sampled):
        tried.crash(Crash(draws.choice(KINDS), draws.randrange(tried.num_calls) + 1))


def points(verb: Verb, num_calls: int) -> list[Crash]:
    """Return the crashes of a command at every call, in an order that is the same each time."""
    draws = Random(SEED)
    crashes = [
        Crash(kind, at)
        for at in range(1, num_calls + 1)
        for kind in draws.sample(KINDS, verb.kinds_per_call)
    ]
    draws.shuffle(crashes)
    return crashes


@pytest.mark.crash
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("share", range(NUM_SHARES))
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_may_crash_at_every_call(trial, name, share):
    tried = trial(name)
    failed = []
    crashes = points(tried.verb, tried.num_calls)[share::NUM_SHARES]
    for crash in crashes:
        try:
            tried.crash(crash)
        except AssertionError as error:
            failed.append("\n".join([str(error)[:1500], *error.__notes__]))
    assert not failed, f"{len(failed)} of {len(crashes)} crashes\n" + "\n\n".join(failed[:10])
