"""Python and commands that another user may have chosen are not run unless the user names them."""

from __future__ import annotations

import json
import os
import pwd
import py_compile
import re
from importlib.util import cache_from_source
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import TYPE_CHECKING, Any

import pytest

import tarmac
from tarmac import RequestError, runs
from tarmac.cli import main
from tarmac.files import TRUSTED_USERS, StorageError, foreign_owner, trust_in_this_user
from tarmac.jobs import list_statuses, parse_job, plan_tasks, training_job
from tarmac.run_kinds import index_of
from tarmac.studies import Winner, open_study
from tarmac.training import workload_of
from tarmac.workloads import find_workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Said = pytest.CaptureFixture[str]


@pytest.fixture
def nobody() -> int:
    """Return the number of another user, to whom files can be given."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away; run the tests as root")
    return pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def place(open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory like /tmp, as the current one; nobody is trusted but by the defaults."""
    monkeypatch.delenv(TRUSTED_USERS, raising=False)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.chdir(open_directory)
    return open_directory


class Evil:
    """A workload's file that leaves a trace when it is run, and a run that names it."""

    def __init__(self, place: Path, home: str = "home") -> None:
        self.file = place / home / "evil.py"
        self.file.parent.mkdir()
        self.trace = place / "trace"
        self.file.write_text(
            f"open({str(self.trace)!r}, 'w').close()\n"
            "from tarmac.workloads.digits_mlp import workload\n"
        )
        self.reference = f"{self.file}:workload"
        self.runs = place / "runs"

    @property
    def has_run(self) -> bool:
        return self.trace.exists()

    def run(self, **fields: Any) -> runs.Run:
        configuration = {"workload": self.reference, "settings": {}}
        run = runs.Run.create(
            self.runs,
            workload="evil",
            command=[],
            configuration=configuration,
            dataset={},
            device={},
            versions={},
            seed=0,
            git=None,
            expectation=None,
            **fields,
        )
        run.update(status="failed")
        run.model.touch()
        return run


@pytest.fixture
def evil(place: Path) -> Evil:
    return Evil(place)


# Who calls `find_workload`, and why no other user can have chosen what it names.
_FINDS = {
    "cli/commands/train.py": "named on the command line",
    "cli/views/layers.py": "named on the command line",
    "cli/views/workloads.py": "installed ones",
    "hkube/serving/verb.py": "named on the command line",
    "studies/evaluation/choice.py": "a study that opening.py has opened",
    "studies/evaluation/stacked/worker.py": "told by a process that has opened its study",
    "studies/opening.py": "named by the user, or refused before",
    "testing/selftest.py": "named on the command line",
    "training/session/mistakes.py": "installed ones",
    "training/session/rank.py": "a run that the process which started this one has opened",
    "training/session/recorded_workload.py": "named by the user, or refused before",
    "training/verb.py": "named by the user",
}


def test_every_place_that_imports_a_workload_knows_whose_choice_it_is() -> None:
    source = Path(tarmac.__file__).parent
    finders = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"(?<!def )\bfind_workload\(", path.read_text(encoding="utf-8"))
    }
    assert finders == _FINDS.keys()


def give(path: Path, owner: int) -> None:
    for inner in (path, *path.rglob("*")):
        os.lchown(inner, owner, owner)


def exit_code(words: Sequence[str | Path]) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


VERBS = {
    "resume": ["train", "--resume", "RUN"],
    "resume on a cluster": ["train", "--resume", "RUN", "--on", "slurm"],
    "extend": ["train", "--from-checkpoint", "RUN", "--epochs", "9"],
    "eval": ["eval", "RUN"],
    "predict": ["predict", "RUN", "x.csv"],
    "export": ["export", "RUN", "--to", "torch"],
}


@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("foreign", ["run", "record", "file", "directory of the file", "link"])
def test_python_that_another_user_may_have_chosen_is_refused(
    evil: Evil, nobody: int, capsys: Said, words: list[str], foreign: str
) -> None:
    run = evil.run().path
    match foreign:
        case "run":
            give(run, nobody)
        case "record":
            os.chown(run / "run.json", nobody, nobody)
        case "file":
            os.chown(evil.file, nobody, nobody)
        case "directory of the file":
            os.chown(evil.file.parent, nobody, nobody)
        case "link":
            give(run, nobody)
            link = run.with_name("link")
            link.symlink_to(run)
            run = link
    assert exit_code([run if word == "RUN" else word for word in words]) == 2
    assert not evil.has_run
    said = capsys.readouterr().err
    assert "belongs to nobody" in said
    assert f"the Python of {evil.reference} would run as you" in said
    assert evil.reference in said.partition("If you trust it, name it: ")[2]


LINKED = ("samples.jsonl", "checkpoints", "logs/rank-0")


@pytest.mark.parametrize("linked", LINKED)
def test_nothing_is_written_into_a_run_of_another_user_that_links_elsewhere(
    evil: Evil, nobody: int, capsys: Said, linked: str
) -> None:
    run = evil.run().path
    record = json.loads((run / "run.json").read_text())
    record["configuration"]["workload"] = "digits-mlp"
    (run / "run.json").write_text(json.dumps(record))
    (run / "logs").mkdir()
    (run / "checkpoints").rmdir()
    precious = evil.file.parent
    (run / linked).symlink_to(precious)
    give(run, nobody)
    shown, before = Path("runs", run.name), [*precious.rglob("*")]
    assert exit_code(["train", "--resume", run]) == 2
    err = capsys.readouterr().err
    assert f"{shown / 'run.json'} belongs to nobody" in err
    assert f"cp -rL {shown} MINE" in err
    named = err.partition("name what it trains: ")[2].partition("\n")[0].split()[1:]
    assert exit_code(named) == 2
    assert f"{shown / linked} is a link" in capsys.readouterr().err
    assert [*precious.rglob("*")] == before


def test_nothing_is_written_into_a_search_of_another_user_that_links_elsewhere(
    evil: Evil, nobody: int, capsys: Said
) -> None:
    space = {"hidden": [16, 17]}
    study = open_study("digits-mlp", output=evil.runs, space=space, method="brute").path
    (study / "best").symlink_to(evil.file.parent)
    give(study, nobody)
    for words in (["search", "--resume", study], ["search", "worker", study]):
        assert exit_code(words) == 2
        assert f"{study / 'study.json'} belongs to nobody" in capsys.readouterr().err
    assert exit_code(["search", "digits-mlp", "--resume", study]) == 2
    assert f"{study / 'best'} is a link" in capsys.readouterr().err


def test_a_file_that_the_user_names_is_run_whoever_owns_it(evil: Evil, nobody: int) -> None:
    run = evil.run()
    give(run.path, nobody)
    give(evil.file.parent, nobody)
    assert workload_of(run, evil.reference).name == "digits-mlp"
    assert evil.has_run


def put_neighbours(place: Path, nobody: int) -> Path:
    """Put modules of all kinds beside a workload's file, where all may write; return that file.

    Each leaves a file of its own name in ``ran`` when it is run.
    """
    (place / "ran").mkdir()
    leaves_trace = f"open({str(place / 'ran')!r} + '/' + __name__, 'w').close()\n"
    names = [f"planted_{kind}" for kind in ("module", "package", "bytecode")]
    imports = "".join(f"try: import {name}\nexcept ImportError: pass\n" for name in names)
    file = place / "mine.py"
    file.write_text(
        f"import neighbour_of_mine\n{imports}from tarmac.workloads.digits_mlp import workload\n"
    )
    (place / "neighbour_of_mine.py").write_text("")
    planted = [place / "planted_module.py", place / "planted_package" / "__init__.py"]
    planted.append(place / "planted_bytecode.py")
    for path in planted:
        path.parent.mkdir(exist_ok=True)
        path.write_text(leaves_trace)
    py_compile.compile(str(planted.pop()), cfile=str(place / "planted_bytecode.pyc"))
    (place / "planted_bytecode.py").unlink()
    planted += [place / "planted_package", place / "planted_bytecode.pyc", place / "__pycache__"]
    # Python takes such a file for what it has compiled of the user's own, whatever that holds.
    compiled = Path(cache_from_source(str(place / "neighbour_of_mine.py")))
    evil = place / "neighbour_of_mine_of_nobody"
    evil.write_text(leaves_trace)
    py_compile.compile(
        str(evil), cfile=str(compiled), invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
    )
    for path in (*planted, compiled):
        os.chown(path, nobody, nobody)
    return file


def test_a_workloads_file_runs_no_neighbour_that_another_user_has_put_there(
    place: Path, nobody: int, capsys: Said
) -> None:
    file = put_neighbours(place, nobody)
    assert find_workload(f"{file}:workload").name == "digits-mlp"
    assert not [*(place / "ran").iterdir()]
    said = capsys.readouterr().err
    assert f"note: imports skip {place}/planted_module.py, which belongs to nobody" in said


def test_a_workloads_file_brings_no_neighbour_of_another_user_along_with_its_task(
    place: Path, nobody: int
) -> None:
    put_neighbours(place, nobody)
    job = parse_job("{name: x, workload: mine.py:workload}")
    (task,) = plan_tasks(job, place)
    assert {given.source for given in task.inputs} == {"mine.py", "neighbour_of_mine.py"}


@pytest.mark.parametrize("verb", ["eval", "predict", "export"])
def test_a_verb_about_a_run_takes_the_file_that_the_user_names(
    evil: Evil, nobody: int, verb: str
) -> None:
    run = evil.run().path
    give(run, nobody)
    # What follows fails, as the run has no weights.
    assert exit_code([*VERBS[verb][:1], run, *VERBS[verb][2:], "--workload", evil.reference])
    assert evil.has_run


def test_users_may_be_trusted_by_name_and_number(
    evil: Evil, nobody: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = evil.run()
    give(run.path, nobody)
    for names in ("nobody", f"somebody-unknown, {nobody}"):
        monkeypatch.setenv(TRUSTED_USERS, names)
        assert workload_of(run, None).name == "digits-mlp"
    monkeypatch.setenv(TRUSTED_USERS, "somebody-unknown")
    with pytest.raises(RequestError, match="belongs to nobody"):
        workload_of(run, None)


def test_whoever_called_sudo_is_trusted_by_root(
    evil: Evil, nobody: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = evil.run()
    give(run.path, nobody)
    monkeypatch.setenv("SUDO_UID", str(nobody))
    assert workload_of(run, None).name == "digits-mlp"


def test_a_workload_that_is_installed_runs_whoever_trained_it(evil: Evil, nobody: int) -> None:
    evil.reference = "digits-mlp"
    run = evil.run()
    give(run.path, nobody)
    assert workload_of(run, None).name == "digits-mlp"


def test_roots_files_and_ones_own_are_trusted_and_sudo_means_nothing_to_others(
    place: Path, second_user: Callable[[Callable[[], object]], object]
) -> None:
    (place / "of_root").touch()

    def look() -> object:
        own = place / "own"
        own.touch()
        # Anybody can set it.
        os.environ["SUDO_UID"] = "1"
        given = [foreign_owner(place / "of_root", own, place, place / "missing")]
        os.environ[TRUSTED_USERS] = "daemon"
        return [*given, trust_in_this_user()]

    nobody = pwd.getpwnam("nobody").pw_uid
    assert second_user(look) == [None, {TRUSTED_USERS: f"daemon,{nobody}"}]
    assert foreign_owner(place / "of_root", place / "own") == "nobody"


def test_another_user_who_runs_tarmac_is_protected_from_a_third(
    evil: Evil, second_user: Callable[[Callable[[], object]], object]
) -> None:
    run = evil.run()
    give(run.path, pwd.getpwnam("daemon").pw_uid)
    with pytest.raises(RequestError, match="belongs to daemon"):
        second_user(lambda: workload_of(run, None))


def test_the_name_of_another_users_run_steers_no_terminal(
    evil: Evil, nobody: int, capsys: Said
) -> None:
    evil.run(name="mine")
    give(evil.run(name="a\x1b]0;spoof\x07\nerror: \u202eb").path, nobody)
    assert runs.resolve("latest", evil.runs).name == "mine"
    (said,) = capsys.readouterr().err.splitlines()
    assert said.isprintable()
    assert r"a\x1b]0;spoof\x07\nerror: \u202eb, which belongs to nobody" in said


@pytest.mark.parametrize("verb", ["resume", "eval"])
def test_latest_passes_over_the_runs_of_others_and_says_so(
    evil: Evil, nobody: int, capsys: Said, verb: str
) -> None:
    evil.run(name="mine")
    give(evil.run(name="theirs").path, nobody)
    assert runs.resolve("latest", evil.runs).name == "mine"
    said = capsys.readouterr().err
    assert said == f"note: latest skips {evil.runs / 'theirs'}, which belongs to nobody\n"
    give(evil.runs / "mine", nobody)
    words = ["latest" if word == "RUN" else word for word in VERBS[verb]]
    assert exit_code([*words, "--output", evil.runs]) == 2
    assert "there is no run 'latest'" in capsys.readouterr().err
    assert not evil.has_run


def test_a_search_of_another_user_is_not_gone_on_with(
    evil: Evil, nobody: int, capsys: Said
) -> None:
    space = {"hidden": [16, 17]}
    study = open_study(evil.reference, output=evil.runs, space=space, method="brute")
    evil.trace.unlink()
    give(study.path, nobody)
    for words in (["search", "--resume", study.path], ["search", "worker", study.path]):
        assert exit_code(words) == 2
        said = capsys.readouterr().err
        assert f"{study.path / 'study.json'} belongs to nobody" in said
        assert f"tarmac search {evil.reference} --resume" in said
    assert exit_code(["search", "--resume", "latest", "--output", evil.runs]) == 2
    assert "note: latest skips" in capsys.readouterr().err
    assert not evil.has_run
    open_study(evil.reference, resume=study.path, output=evil.runs, space=space, method="brute")
    assert evil.has_run


@pytest.mark.parametrize("foreign", ["study", "file"])
def test_the_line_that_trains_a_winner_comes_with_whose_python_it_runs(
    evil: Evil, nobody: int, capsys: Said, foreign: str
) -> None:
    study = open_study(evil.reference, output=evil.runs, space={"hidden": [16, 17]}, method="brute")
    values = dict.fromkeys(study.request.objective, 0.5)
    winner = Winner(number=0, settings={"hidden": 16}, values=values, epochs=1)
    study.update(best=winner, status="completed")
    page = evil.runs / "page.html"
    verbs = ["search", "best"], ["search", "show"], ["report", "--html", str(page)]

    def said(*options: str) -> str:
        for words in verbs:
            assert not exit_code([*words, study.path, *options])
        return capsys.readouterr().out + page.read_text()

    caution = f"may have chosen: read {evil.reference} first"
    assert caution not in said()
    give(study.path if foreign == "study" else evil.file, nobody)
    assert said().count(f"nobody {caution}") == len(verbs)
    evil.trace.unlink()
    assert not exit_code(["search", "best", study.path, "--json"])
    assert json.loads(capsys.readouterr().out)["best"]["command"] is None
    assert not evil.has_run


def test_a_job_of_another_user_is_not_gone_on_with(place: Path, nobody: int, capsys: Said) -> None:
    (place / "job.yaml").write_text(f"{{name: x, command: touch {place / 'trace'}; exit 1}}\n")
    assert exit_code(["run", "job.yaml", "--output", place / "runs"]) == 1
    (place / "trace").unlink()
    (run,) = (place / "runs").iterdir()
    give(run, nobody)
    assert exit_code(["run", "--resume", run]) == 2
    assert "its commands would run as you" in capsys.readouterr().err
    assert exit_code(["run", "--resume", "latest", "--output", place / "runs"]) == 2
    assert not (place / "trace").exists()


def test_processes_elsewhere_trust_who_has_submitted_them(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    job = training_job("digits-mlp", ["--resume", "x"], output=place)
    assert job.env[TRUSTED_USERS] == "1234"


def test_a_folder_that_may_not_be_entered_is_named_by_every_list(
    open_directory: Path, second_user: Callable[[Callable[[], object]], object]
) -> None:
    closed = open_directory / "closed-run"
    closed.mkdir(mode=0o700)

    def listed() -> tuple[list[str], list[str]]:
        statuses, broken = list_statuses(open_directory)
        assert not statuses
        index = index_of(open_directory)
        return [run.reason for run in broken], [run.reason for run in index.summaries()[1]]

    assert second_user(listed) == (["cannot read it: Permission denied"],) * 2
    open_directory.chmod(0o700)
    for look in (
        lambda: list_statuses(open_directory),
        lambda: index_of(open_directory).summaries(),
    ):
        with pytest.raises(StorageError, match="Permission denied"):
            second_user(look)
