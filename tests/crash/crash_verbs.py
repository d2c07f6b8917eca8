"""Verbs that write, each with what is there before, how it is repeated, and what it makes.

A new verb that writes is one more `Verb` in `VERBS`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest
from crash_points import KINDS, CrashShell

from damaged_records import make_good_runs
from tarmac import data

OUTPUT = ("--output", "runs")
RECORDS = ("run.json", "study.json", "job-run.json")
GOOD = ("good-training", "good-job", "good-pipeline", "good-study")

_TRAIN = ("train", "digits-mlp", "--train-size", "64", "--validation-size", "32", "--no-check")
_JOB = """\
name: kept
concurrency: 2
tasks:
  - name: make
    command: echo {{ n }} > made-{{ n }}.txt
    sweep: {grid: {n: [1, 2, 3]}}
    outputs: [{path: '*.txt', to: kept}]
  - name: last
    needs: [make]
    command: "true"
"""
_TABLE = "a,b,label\n" + "".join(f"{n % 5},{n % 3},{'xy'[n % 2]}\n" for n in range(40))


@dataclasses.dataclass(frozen=True)
class Verb:
    """A command that writes.

    Attributes:
        words: What follows `tarmac`.
        made: Returns what the command has made in the directory, the same each time.
        again: Returns what to type after a crash, in the directory. Default: the same command.
        prepare: Makes what is there before, in the directory of a shell.
        changes: Patterns of the files that were there before and that the command may change.
        states: What `made` may return after a crash, beside what the whole command makes.
        others: What it may return in the end: a candidate whose process was killed has failed.
        num_sampled: Crashes that `make test` tries.
        kinds_per_call: How many kinds of crash `make test-crash` tries at each call.
    """

    words: tuple[str, ...]
    made: Callable[[Path], object]
    again: Callable[[Path], tuple[str, ...] | None] = lambda _: None
    prepare: Callable[[CrashShell], None] = lambda _: None
    changes: tuple[str, ...] = ()
    states: tuple[object, ...] | None = None
    others: tuple[object, ...] = ()
    num_sampled: int = 2
    kinds_per_call: int = len(KINDS)


def digest(path: Path) -> str:
    """Return a short digest of a file; "none" where it is not there."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "none"


def new_runs(directory: Path) -> list[Path]:
    """Return the runs that a command has begun: directories that hold a record, in order."""
    return sorted(
        path
        for path in (directory / "runs").glob("[!.]*")
        if path.name not in (*GOOD, "trained") and any((path / name).exists() for name in RECORDS)
    )


def _resumed(command: str) -> Callable[[Path], tuple[str, ...] | None]:
    """Return what goes on with the run that was begun, where one was."""

    def words(directory: Path) -> tuple[str, ...] | None:
        begun = new_runs(directory)
        if not begun:
            return None
        if _is_completed(begun[-1]):
            return ("runs", "list", *OUTPUT)
        return (command, "--resume", begun[-1].name, *OUTPUT)

    return words


def _is_completed(run: Path) -> bool:
    records = [run / name for name in RECORDS if (run / name).exists()]
    status = json.loads(records[0].read_text())
    return "completed" in (status.get("status"), status.get("outcome"))


def _removed(directory: Path) -> tuple[str, ...] | None:
    """Return what removes another run where the one is gone, and with it what was left."""
    if (directory / "runs" / "good-training").exists():
        return None
    return ("runs", "rm", "good-study", "--yes", *OUTPUT)


def _models(directory: Path) -> object:
    run = new_runs(directory)[-1]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return digest(run / "model.safetensors"), [(line["epoch"], line["loss"]) for line in lines]


def _winner(directory: Path) -> object:
    best = new_runs(directory)[-1] / "best"
    network = json.loads((best / "network.json").read_text())
    return network["settings"]["hidden"], len([*best.glob("*/model.safetensors")])


def _kept(directory: Path) -> object:
    return {path.name: path.read_text() for path in sorted((directory / "kept").iterdir())}


def _text(name: str) -> Callable[[Path], object]:
    """Return what returns a file's text without its numbers; "none" where it is not there."""

    def read(directory: Path) -> object:
        path = directory / name
        return _lasting(path.read_text(errors="replace")) if path.exists() else "none"

    return read


def _lasting(text: str) -> str:
    return re.sub(r"\d+(\.\d+)?( ?(ms|s|KiB|MiB|GiB|%))?", "0", text)


def _num_samples(directory: Path) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARMAC_DATA", str(directory / "data"))
        return len(data.load("mine").train)


def _whole_report(directory: Path) -> object:
    path = directory / "good.json"
    return sorted(json.loads(path.read_text())) if path.exists() else "none"


def _train_once(shell: CrashShell) -> None:
    ended = shell.run(*_TRAIN, "--epochs", "1", *OUTPUT)
    assert ended.returncode == 0, ended.output
    (run,) = new_runs(shell.directory)
    run.rename(run.with_name("trained"))


def _train_for_answers(shell: CrashShell) -> None:
    _train_once(shell)
    row = ",".join(["5"] * 64)
    (shell.directory / "good.csv").write_text(f"{row}\n{row}\n")
    (shell.directory / "answers.jsonl").write_text("[]")


def _write(name: str, text: str) -> Callable[[CrashShell], None]:
    def write(shell: CrashShell) -> None:
        (shell.directory / name).write_text(text)

    return write


def _take_over(shell: CrashShell) -> None:
    for name, rows in (("old.csv", 20), ("new.csv", 40)):
        lines = _TABLE.splitlines(keepends=True)[: rows + 1]
        (shell.directory / name).write_text("".join(lines))
    ended = shell.run("data", "add", "mine", "--from", "old.csv", "--target", "label")
    assert ended.returncode == 0, ended.output


VERBS: Mapping[str, Verb] = {
    "train": Verb(
        (*_TRAIN, "--epochs", "3", *OUTPUT),
        _models,
        _resumed("train"),
        num_sampled=3,
        kinds_per_call=1,
    ),
    "search": Verb(
        (
            *(
                "search",
                "digits-mlp",
                "--method",
                "random",
                "--set",
                "hidden=8,16",
                "--trials",
                "2",
            ),
            *("--epochs", "1", "--workers", "1", "--train-size", "64", "--validation-size", "32"),
            *OUTPUT,
        ),
        _winner,
        _resumed("search"),
        others=((8, 1), (16, 1)),
        num_sampled=1,
        kinds_per_call=1,
    ),
    "run": Verb(
        ("run", "job.yaml", *OUTPUT),
        _kept,
        _resumed("run"),
        prepare=_write("job.yaml", _JOB),
        num_sampled=5,
        kinds_per_call=3,
    ),
    "data add": Verb(
        ("data", "add", "mine", "--from", "new.csv", "--target", "label", "--replace"),
        _num_samples,
        prepare=_take_over,
        changes=("data/mine/*",),
        states=(16,),
        num_sampled=6,
    ),
    "export": Verb(
        ("export", "runs/trained", "--to", "torch", "--output", "model.pt2"),
        lambda directory: (directory / "model.pt2").stat().st_size > 1000,
        prepare=_train_once,
        num_sampled=1,
    ),
    "predict": Verb(
        ("predict", "runs/trained", "good.csv", "--output", "answers.jsonl"),
        _text("answers.jsonl"),
        prepare=_train_for_answers,
        changes=("answers.jsonl",),
        states=("[]",),
        num_sampled=1,
    ),
    "search export": Verb(
        ("search", "export", "good-study", "--to", "trials.csv", *OUTPUT),
        _text("trials.csv"),
        prepare=_write("trials.csv", "old"),
        changes=("trials.csv",),
        states=("old",),
        num_sampled=1,
    ),
    "check --save": Verb(
        ("check", "--quick", "--save", "good.json"),
        _whole_report,
        num_sampled=1,
    ),
    "report": Verb(
        ("report", "good-training", "--no-pictures", "--html", "page.html", *OUTPUT),
        _text("page.html"),
        prepare=_write("page.html", "the page of yesterday"),
        changes=("page.html",),
        states=("the page of yesterday",),
    ),
    "runs rm": Verb(
        ("runs", "rm", "good-training", "--yes", *OUTPUT),
        lambda directory: (directory / "runs" / "good-training").exists(),
        _removed,
        changes=("runs/good-training/*", "runs/good-study/*"),
        num_sampled=3,
    ),
    "runs list": Verb(("runs", "list", *OUTPUT), lambda _: None),
}


def prepare(verb: Verb, shell: CrashShell) -> None:
    """Make what is there before the command."""
    make_good_runs(shell.directory / "runs")
    (shell.directory / "data").mkdir()
    verb.prepare(shell)


def may_change(verb: Verb, path: str) -> bool:
    """Return whether the command may change a file that was there before; locks have no content."""
    patterns = (*verb.changes, "cache/*", "state/*", "*.lock", "*.lock.lease")
    return any(fnmatch(path, pattern) for pattern in patterns)
