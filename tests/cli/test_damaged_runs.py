"""A run whose records are damaged is said to be so, and the others are not disturbed by it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from random import Random

import pytest

from damaged_records import (
    BY_NAME,
    FILES,
    KINDS,
    MAKERS,
    UNREADABLE,
    damaged,
    make_good_runs,
    records,
)
from tarmac.cli import main
from tarmac.errors import TarmacError
from tarmac.files import OwnerLock, Readings, StorageError, append_lines, read_lines
from tarmac.jobs import JOB, find_run, list_statuses
from tarmac.jobs.history import read_history
from tarmac.jobs.status import read_status
from tarmac.monitor import run_discovery
from tarmac.monitor.run_discovery import RunDiscovery
from tarmac.pages import page_of, render_page
from tarmac.run_kinds import load_glance
from tarmac.runs import TRAINING, Catalogue, RunIndex, list_runs
from tarmac.server.listing import RunLister
from tarmac.server.site import Address, NoSuchPageError, Site
from tarmac.studies import list_studies
from tarmac.studies.ledger import SURVIVORS

RECORDS = {"training": "run.json", "job": "job-run.json", "study": "study.json"}

# More than any machine's memory: reading it whole raises MemoryError at once.
HOLE_BYTES = 2**43

# Of each file, with seeds of their own; hundreds find no more.
TRIES = 4

# What an error says that nobody has worded.
UNWORDED = re.compile(r"Traceback|Add --debug|pydantic\.dev|For further information")


class Looker:
    """Looks at runs by every verb, in this process."""

    def __init__(self, output, capsys):
        self.output = output
        self._capsys = capsys

    def tarmac(self, *words, code=None):
        """Return what a command prints, which is in words whatever it is."""
        with pytest.raises(SystemExit) as caught:
            main([*words, "--output", str(self.output)])
        out, err = self._capsys.readouterr()
        assert not UNWORDED.search(out + err), (words, err)
        assert code is None or (caught.value.code or 0) == code, (words, err)
        return out + err

    def page(self, address):
        """Return a page of `tarmac serve`; its text where there is none."""
        site = Site(RunLister(self.output, every_s=0.0), page_of, lambda: None)
        path, _, query = address.partition("?")
        try:
            return render_page(site.page(Address.parse(path.encode(), query.encode())))
        except NoSuchPageError as error:
            return error.message

    def lists(self):
        """Return what all lists say, in each of which is every good run."""
        shown = {
            ("training", "job", "pipeline", "study"): [
                self.tarmac("runs", "list", code=0),
                self.page("/"),
            ],
            ("job", "pipeline"): [self.tarmac("ps", "--all", code=0), self.page("/jobs")],
            ("study",): [self.tarmac("search", "list", code=0), self.page("/searches")],
        }
        for kinds, texts in shown.items():
            for kind in kinds:
                assert all(f"good-{kind}" in text for text in texts), (kind, texts)
        assert len(list_runs(self.output)[0]) >= 1
        return "\n".join(text for texts in shown.values() for text in texts)

    def verbs(self, kind):
        """Return what the verbs say that look at the one bad run."""
        said = [
            self.tarmac("runs", "show", "bad"),
            self.tarmac("runs", "show", "bad", "--json"),
            self.tarmac("runs", "logs", "bad"),
            self.tarmac("runs", "compare", "bad", f"good-{kind}"),
        ]
        if kind == "study":
            said += [self.tarmac("search", verb, "bad") for verb in ("best", "export")]
        elif kind != "training":
            said += [self.tarmac("logs", "bad"), self.page("/runs/bad/tasks/000000-prepare/")]
            said.append(self.page("/runs/bad/tasks/000002-train_seed=2_/"))
        load_glance(KINDS[kind].name)(self.output / "bad")
        return "\n".join(said)

    def pages(self, kind):
        """Return the pages that show the bad run."""
        return "\n".join(
            [
                self.tarmac("report", "bad", "--html", "-", "--no-pictures"),
                self.page("/runs/bad/"),
                self.page(f"/compare?run=bad&run=good-{kind}"),
            ]
        )


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a directory with a good run of each kind."""
    output = tmp_path_factory.mktemp("damaged") / "runs"
    output.mkdir()
    for kind, make in MAKERS.items():
        make(output, f"good-{kind}")
    return output


@pytest.fixture
def look(good, capsys, monkeypatch, tmp_path):
    """Return what looks at good runs and a bad one, which the test makes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield Looker(good, capsys)
    shutil.rmtree(good / "bad", ignore_errors=True)


@pytest.mark.parametrize(("kind", "file"), FILES)
def test_a_hole_in_a_record_disturbs_no_other_run(look, kind, file):
    run = MAKERS[kind](look.output, "bad")
    with (run / file).open("ab") as record:
        record.truncate(HOLE_BYTES)
    output = look.lists() + look.verbs(kind)
    if file in (*RECORDS.values(), "journal.jsonl"):
        assert f"cannot read {run / file}: it is too large for a record" in output


@pytest.mark.parametrize("what", UNREADABLE)
@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_that_nothing_can_be_read_of_disturbs_no_other_run(look, kind, what):
    run = MAKERS[kind](look.output, "bad")
    (run / RECORDS[kind]).write_bytes(UNREADABLE[what])
    lists = look.lists()
    assert f"bad cannot be read: {run / RECORDS[kind]} is damaged: " in lists
    next_step = f"\n  Restore a copy of it; see what is left there: ls {run}\n"
    for verb in (("runs", "show"), ("report",)):
        message = look.tarmac(*verb, "bad", code=1)
        assert "is damaged: " in message
        assert next_step in message
    assert "is damaged" in look.page("/runs/bad/")
    if kind != "study":
        # Optuna takes a second for a good one.
        assert "is damaged" not in look.page(f"/runs/good-{kind}/")


@pytest.mark.parametrize("kind", RECORDS)
def test_top_shows_a_run_at_work_whose_record_cannot_be_read(look, kind):
    run = MAKERS[kind](look.output, "bad")
    (run / "workers").mkdir(exist_ok=True)
    runs_in_sight = RunDiscovery(look.output, Readings())
    with (
        OwnerLock(run / ".lock").held(),
        OwnerLock(run / "workers" / "1.lock").held(),
    ):
        for content in UNREADABLE.values():
            (run / RECORDS[kind]).write_bytes(content)
            (seen,) = runs_in_sight.look()
            assert (seen.name, seen.kind, seen.status) == ("bad", KINDS[kind].name, "unreadable")
            assert seen.note.startswith(f"{run / RECORDS[kind]} is damaged: ")
        shown = look.tarmac("top", "--once", code=0)
        assert "  ! bad  cannot be read" in shown
        assert f"! {run}"[:40] in shown
        work, *_ = json.loads(look.tarmac("top", "--once", "--json", code=0))["hosts"][0]["work"]
        assert (work["state"], work["slow"]) == ("unreadable", [seen.note])


@pytest.mark.parametrize("kind", RECORDS)
def test_how_to_remove_a_run_whose_record_is_damaged_is_said(look, kind):
    run = MAKERS[kind](look.output, "bad")
    (run / "runner.json").unlink(missing_ok=True)
    (run / RECORDS[kind]).write_text("[" * 10)
    message = look.tarmac("runs", "rm", "bad", "--yes", code=1)
    assert "is damaged: Expecting value: line 1 column 11 (char 10)\n" in message
    assert f"\n  If nothing works on it: rm -r {run}\n" in message


def test_a_number_of_many_digits_is_not_shown_whole_nor_in_pythons_words(look):
    record = MAKERS["training"](look.output, "bad") / "run.json"
    record.write_text('{"schema_version": ' + "9" * 4000 + "}")
    assert len(look.tarmac("runs", "show", "bad", code=2)) < len(str(look.output)) + 200
    record.write_text("9" * 5000)
    message = look.tarmac("runs", "show", "bad", code=1)
    assert "is damaged: a number in it has too many digits\n" in message


@pytest.mark.parametrize("what", UNREADABLE)
@pytest.mark.parametrize("kind", ["job", "pipeline"])
def test_a_damaged_line_of_a_journal_is_named_and_left_out(look, kind, what):
    journal = MAKERS[kind](look.output, "bad") / "journal.jsonl"
    first, *rest = journal.read_bytes().splitlines(keepends=True)
    # Whatever the line is, it is one.
    journal.write_bytes(b"".join([first, UNREADABLE[what].replace(b"\n", b"") + b"\n", *rest]))
    assert f"{journal}:2: the journal is damaged" in look.lists()
    for said in (
        look.tarmac("runs", "show", "bad", code=0),
        look.tarmac("logs", "bad"),
        look.page("/runs/bad/"),
    ):
        assert "journal.jsonl:2: the journal is damaged" in said.replace("\n", "")
    with pytest.raises(TarmacError, match=r"journal\.jsonl:2: the journal is damaged"):
        read_history(journal)


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_damaged_line_of_metrics_is_named(look, what):
    metrics = MAKERS["training"](look.output, "bad") / "metrics.jsonl"
    first, *rest = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(b"".join([first, UNREADABLE[what].replace(b"\n", b"") + b"\n", *rest]))
    look.lists()
    for said in (look.tarmac("runs", "show", "bad", code=1), look.pages("training")):
        assert "metrics.jsonl:2 is damaged" in said


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_damaged_line_of_a_studys_journal_is_named(look, what):
    journal = MAKERS["study"](look.output, "bad") / "journal.log"
    first, *rest = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([first, UNREADABLE[what].replace(b"\n", b"") + b"\n", *rest]))
    look.lists()
    for said in (look.tarmac("search", "show", "bad", code=1), look.page("/runs/bad/")):
        assert "journal.log:2: the journal is damaged" in said


def test_a_winner_without_what_it_was_judged_by_is_damage(look):
    MAKERS["study"](look.output, "good")
    path = MAKERS["study"](look.output, "bad") / "study.json"
    record = json.loads(path.read_text())
    record["best"] = {"number": 0, "settings": {}, "values": {}, "epochs": 1}
    path.write_text(json.dumps(record))
    listed = look.tarmac("search", "list", code=0)
    assert "bad cannot be read: " in listed
    assert "study.json is damaged: best.values: has no val_accuracy" in listed
    assert "good" in listed


@pytest.mark.parametrize("survivors", [[[0]], "all", None, {"0": 1}, [10**6], ["0"]])
def test_survivors_of_a_search_that_are_no_trials_are_damage(look, survivors):
    journal = MAKERS["study"](look.output, "bad") / "journal.log"
    entry = next(line for line in read_lines(journal).values if line["op_code"] == 3)
    entry["system_attr"] = {f"{SURVIVORS}1": survivors}
    append_lines(journal, [entry])
    look.lists()
    shown = look.page("/runs/bad/")
    assert "is damaged" in shown
    assert "is damaged" in look.tarmac("search", "show", "bad")


@pytest.mark.parametrize(
    "change",
    [
        {"task": [0]},
        {"task": "0"},
        {"task": -1},
        {"seconds": "1"},
        {"seconds": float("nan")},
        {"outcome": ["succeeded"]},
        {"outcome": "vanished"},
        {"name": 3},
        {"reason": None},
        {"directory": "/etc"},
        {"directory": "../good-job/tasks/000000-prepare"},
        {"attempts": 10**300},
        {"at": 1e300},
        "seconds",
        "reason",
        "outcome",
    ],
    ids=str,
)
def test_an_event_of_a_wrong_shape_is_a_damaged_line(look, change):
    journal = MAKERS["job"](look.output, "bad") / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    if isinstance(change, str):
        del lines[1][change]
    else:
        lines[1] |= change
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (problem,) = read_status(journal.parent).problems
    key = change if isinstance(change, str) else next(iter(change))
    assert problem.startswith(f"{journal}:2: the journal is damaged: ")
    assert key in problem
    look.lists()


@pytest.mark.parametrize(("kind", "file"), FILES)
def test_whatever_befalls_a_file_of_records_every_verb_has_words_for_it(look, kind, file):
    run = MAKERS[kind](look.output, "bad")
    assert run / file in records(run)
    content = (run / file).read_bytes()
    for number in range(TRIES):
        (run / file).write_bytes(damaged(content, Random(f"{kind} {file} {number}")))
        assert "bad" in look.lists()
        look.verbs(kind)
        # Optuna takes a second to say which parameters of a good study matter.
        if kind != "study" or number == 0:
            look.pages(kind)
        if KINDS[kind] is JOB:
            # What `tarmac run --resume` reads before it does anything.
            for read in (lambda: read_history(run / "journal.jsonl"), lambda: find_run(str(run))):
                with contextlib.suppress(TarmacError):
                    read()


def test_a_search_is_shown_among_the_runs(look):
    assert "good-study  completed" in look.tarmac("runs", "show", "good-study", code=0)


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError("too deep"), TypeError()])
def test_an_error_that_nobody_has_foreseen_makes_one_run_unreadable(good, error, monkeypatch):
    summarize = TRAINING.summarize

    def fail(path):
        if path.name == "good-training":
            raise error
        return summarize(path)

    kind = TRAINING.__class__(**(vars(TRAINING) | {"summarize": fail}))
    monkeypatch.setenv("XDG_CACHE_HOME", str(good.parent / "cache"))
    index = RunIndex(("training", "job"), {"training": kind, "job": JOB}.__getitem__, good)
    read = Catalogue((kind, JOB), good).read(lambda run: run.kind.summarize(run.path))
    for summaries, broken in (index.summaries(), read):
        assert {run.name for run in summaries} == {"good-job", "good-pipeline"}
        # Hidden would be forgotten.
        assert type(error).__name__ in broken[0].reason


def test_a_run_that_this_user_may_not_enter_disturbs_no_other(second_user, open_directory):
    output = open_directory / "runs"
    output.mkdir()
    for kind, make in MAKERS.items():
        make(output, f"good-{kind}")
        closed = make(output, f"closed-{kind}")
        closed.chmod(0o700)

    def look():
        index = RunIndex(tuple(BY_NAME), BY_NAME.__getitem__, output, output / "none")
        summaries, broken = index.summaries()
        statuses, _ = list_statuses(output)
        studies, _ = list_studies(output)
        sight = RunDiscovery(output, Readings()).look()
        return (
            {run.name for run in summaries},
            {run.path.name: run.reason for run in broken},
            {run.name for run in statuses},
            {run.name for run in studies},
            sight,
        )

    def look_for(reference):
        return second_user(lambda: Catalogue(tuple(KINDS.values()), output).find(reference).path)

    with pytest.raises(StorageError, match=r"closed-job: cannot read it: Permission denied"):
        look_for("closed-job")
    output.chmod(0o711)
    with pytest.raises(StorageError, match=r"cannot read .*: Permission denied"):
        look_for("latest")
    assert look_for("good-job") == output / "good-job"
    output.chmod(0o700)
    with pytest.raises(StorageError, match=r"cannot read .*: Permission denied"):
        look_for("good-job")
    output.chmod(0o755)
    summaries, broken, statuses, studies, sight = second_user(look)
    assert summaries == {f"good-{kind}" for kind in MAKERS}
    assert broken == {f"closed-{kind}": "cannot read it: Permission denied" for kind in MAKERS}
    assert (statuses, studies, sight) == ({"good-job", "good-pipeline"}, {"good-study"}, ())


@pytest.mark.parametrize("kind", MAKERS)
def test_what_may_not_be_entered_within_a_run_is_told_in_words(
    second_user, open_directory, capsys, monkeypatch, kind
):
    output = open_directory / "runs"
    output.mkdir()
    for good in MAKERS:
        MAKERS[good](output, f"good-{good}")
    run = MAKERS[kind](output, "bad")
    monkeypatch.setenv("XDG_CACHE_HOME", str(open_directory / "none"))
    look = Looker(output, capsys)

    def look_at() -> tuple[str, ...]:
        return look.lists(), look.verbs(kind), look.pages(kind)

    # What another user's process would import may lie where that one may not read.
    look_at()
    for name in ("best", "checkpoints", "logs", "tasks"):
        (run / name).mkdir(exist_ok=True)
        (run / name).chmod(0o700)
    second_user(look_at)
    if kind != "study":
        logs = second_user(lambda: look.tarmac("runs", "logs", "bad"))
        assert f"cannot read {run}/" in logs


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("kind", "file"), FILES)
def test_a_pipe_in_place_of_a_record_keeps_nobody_waiting(look, kind, file):
    path = MAKERS[kind](look.output, "bad") / file
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    printed = look.lists() + look.verbs(kind) + look.pages(kind)
    if file == RECORDS.get(kind):
        assert f"cannot read {path}: it is not a regular file" in printed


STREAMS = [
    ("job", "tasks/000000-prepare/stdout"),
    ("job", "tasks/000002-train_seed=2_/stderr"),
    ("training", "logs/rank-0"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("kind", "file"), STREAMS)
def test_a_pipe_in_place_of_a_log_keeps_nobody_waiting(look, kind, file):
    path = MAKERS[kind](look.output, "bad") / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    look.verbs(kind)
    look.pages(kind)
    look.page(f"/runs/bad/log?file={file}")
    if kind == "job":
        look.tarmac("report", str(path.parent), "--html", "-")


@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize(("kind", "file"), STREAMS)
def test_nothing_shows_what_a_link_leads_to_outside_of_its_run(
    look, kind, file, is_folder, tmp_path
):
    path = MAKERS[kind](look.output, "bad") / file
    path.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path.name).write_text("hunter2\nRuntimeError: CUDA out of memory\n")
    if is_folder:
        shutil.rmtree(path.parent)
        path.parent.symlink_to(tmp_path)
    else:
        path.unlink(missing_ok=True)
        path.symlink_to(tmp_path / path.name)
    shown = look.pages(kind) + look.page(f"/runs/bad/log?file={file}") + look.verbs(kind)
    if kind == "job":
        shown += look.page(f"/runs/bad/{file.rpartition('/')[0]}/")
        shown += look.tarmac("report", str(path.parent), "--html", "-")
    assert "hunter2" not in shown
    assert "[oom]" not in shown


@pytest.mark.parametrize("mtime", [1e12, -1e12])
@pytest.mark.parametrize("kind", KINDS)
def test_times_of_files_beyond_the_years_that_there_are_disturb_nothing(capsys, kind, mtime):
    # Most file systems on disks have no such times.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        look = Looker(make_good_runs(Path(memory) / "runs"), capsys)
        run = MAKERS[kind](look.output, "bad")
        (run / "checkpoints").mkdir(exist_ok=True)
        (run / "checkpoints" / "epoch-00003-step-0000000.safetensors").touch()
        if kind == "training":
            record = json.loads((run / "run.json").read_text())
            (run / "run.json").write_text(json.dumps(record | {"status": "running"}))
            lost = {"kind": "event", "event": "workers_lost", "at_s": 1e300}
            append_lines(run / "samples.jsonl", [lost])
        with OwnerLock(run / ".lock").held():
            for path in run.rglob("*"):
                os.utime(path, (mtime, mtime))
            load_glance(KINDS[kind].name)(run)
            look.lists()
            look.pages(kind)


def test_a_run_whose_glance_raises_is_shown_and_takes_no_other_from_sight(good, look, monkeypatch):
    for name in ("bad", "other"):
        run = MAKERS["training"](look.output, name)
        record = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(record | {"status": "running"}))
    try:
        with OwnerLock(run / ".lock").held(), OwnerLock(look.output / "bad" / ".lock").held():
            (look.output / "bad" / "metrics.jsonl").write_text("")
            glance = load_glance("training")

            def raises_of_bad(path, readings):
                if path.name == "bad":
                    raise KeyError(path)
                return glance(path, readings)

            monkeypatch.setattr(run_discovery, "load_glance", lambda _kind: raises_of_bad)
            seen = RunDiscovery(look.output, Readings()).look()
            assert [(run.name, run.status) for run in seen] == [
                ("bad", "unreadable"),
                ("other", "running"),
            ]
            assert seen[0].note.startswith("KeyError: ")
    finally:
        shutil.rmtree(look.output / "other")
