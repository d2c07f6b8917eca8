"""The command line: what it prints, and how it exits."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forked import forked_interpreter, run_python
from hostile import NAMES
from tarmac.errors import RequestError
from tarmac.jobs import plan_tasks


def test_help_and_import_load_no_framework():
    program = (
        "import sys, tarmac\n"
        "from tarmac.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'numpy', 'optuna', 'pydantic', 'rich') if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines()[-1] == "[]"


def test_ps_loads_neither_frameworks_nor_executors(tmp_path):
    run = tmp_path / "x-1"
    run.mkdir()
    record = {"schema_version": 4, "name": "x", "base": "/", "job": {}, "num_tasks": 1}
    record |= {"created_at": "2026-11-22T12:00:00Z", "executor": "local"}
    (run / "job-run.json").write_text(json.dumps(record))
    started = {"event": "started", "task": 0, "name": "x", "attempt": 1}
    (run / "journal.jsonl").write_text(json.dumps(started) + "\n")
    program = (
        "import sys\n"
        "from tarmac.cli import main\n"
        f"try: main(['ps', '--all', '--output', {str(tmp_path)!r}])\n"
        "except SystemExit: pass\n"
        "heavy = ('torch', 'numpy', 'optuna', 'yaml', 'tarmac.executors', 'tarmac.tasks.model')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    *_, row, loaded = process.stdout.splitlines()
    assert row.split()[:2] == ["x-1", "interrupted"]
    assert loaded == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["train", "--list"],
        ["train", "--list", "--json"],
        ["data", "list"],
        ["runs", "list"],
        ["env", "list"],
        ["ps"],
    ],
    ids=" ".join,
)
def test_every_list_answers(tarmac, arguments, tmp_path, monkeypatch):
    # What other tests have built is no matter of this one.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, out, err = tarmac(*arguments)
    assert (code, err) == (0, "")
    assert out


def test_a_training_prints_what_it_chose_how_it_went_and_a_verdict(tarmac):
    code, out, _ = tarmac("train", "digits-mlp", "--epochs", "2")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("digits-mlp: 26,122 parameters on 1,438 samples of digits; Adam")
    names = ["device", "precision", "threads", "compile", "run"]
    assert [line.split()[0] for line in lines[1:6]] == names
    assert lines[6].startswith("epoch 1/2  loss ")
    assert lines[-3].startswith("set up in ")
    assert "expected at least 0.96: below what was expected" in lines[-2]
    assert "changed" in lines[-2]
    assert lines[-1].startswith("run runs/digits-mlp-")


def test_json_is_all_that_is_printed_where_it_is_asked_for(tarmac):
    code, out, err = tarmac("train", "digits-mlp", "--epochs", "1", "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert result["status"] == "completed"
    assert 0 < result["metrics"]["test_accuracy"] < 1
    assert result["expectation"]["met"] is False


def test_verify_fails_when_the_result_is_not_as_expected(tarmac):
    assert tarmac("train", "digits-mlp", "--verify")[0] == 0
    code, _, err = tarmac("train", "digits-mlp", "--epochs", "1", "--verify")
    assert code == 1
    assert err.startswith("error: test accuracy")


def test_verify_of_what_nothing_is_known_of_is_refused_beforehand(tarmac, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import dataclasses\nfrom tarmac.workloads.digits_mlp import workload as known\n"
        "workload = dataclasses.replace(known, expectation=None)\n"
    )
    code, _, err = tarmac("train", "mine.py:workload", "--verify")
    assert code == 2
    assert "has no expectation to verify" in err
    assert not (tmp_path / "runs").exists()
    code, out, _ = tarmac("train", "mine.py:workload", "--epochs", "1")
    assert code == 0
    assert "expect" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "unknown command 'trian', did you mean 'train'?"),
        (["train"], "no workload is named"),
        (["train", "digits"], "unknown workload 'digits', did you mean 'digits-mlp'?"),
        (["train", "digits-mlp", "--epoch", "1"], "unknown option '--epoch', did you mean"),
        (["train", "digits-mlp", "--learning-rate", "1"], "did you mean '--lr'?"),
        (["train", "digits-mlp", "--gpus", "1"], "did you mean '--devices'?"),
        (["train", "digits-mlp", "--set", "lr=1"], "has an option of its own: --lr"),
        (["train", "digits-mlp", "--epochs", "many"], "'many' is not a valid integer"),
        (["train", "digits-mlp", "--epochs", "0"], "epochs is 0, expected at least 1"),
        (["train", "digits-mlp", "--lr", "fast"], "'fast' is not a valid float"),
        (["train", "digits-mlp", "--set", "hidden"], "'hidden' is not of the form KEY=VALUE"),
        (["train", "digits-mlp", "--set", "hiden=1"], "did you mean 'hidden'?"),
        (["train", "digits-mlp", "--set", "hidden=x"], "hidden is 'x', expected a whole number"),
        (
            ["train", "digits-mlp", "--set", "hidden=1", "--set", "hidden=2"],
            "--set hidden is given twice",
        ),
        (["train", "digits-mlp", "--train-size", "9999"], "digits has 1438 samples"),
        (["train", "digits-mlp", "--device", "gpu"], "devices is 'gpu', expected auto, all"),
        (["train", "digits-mlp", "extra"], "unexpected extra argument"),
        (["train", "--resume", "nope"], "there is no run 'nope'"),
        (["train", "digits-mlp", "--output", "/proc/nowhere"], "runs cannot be made in"),
        (["data", "fetch", "mnits"], "unknown dataset 'mnits', did you mean 'mnist'?"),
        (["data", "fetch"], "Missing argument 'NAME...'"),
        (["data", "add", "mnist", "--from", "nowhere"], "nowhere is not a directory"),
        (["runs", "show", "nope"], "there is no run 'nope'"),
        (["runs", "compare", "one"], "1 run is named, expected at least 2"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_exits_with_2_and_one_message(tarmac, arguments, message):
    code, out, err = tarmac(*arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err
    assert not out


def test_a_gpu_that_is_not_there_is_said_plainly(tarmac):
    import torch

    if torch.cuda.is_available():
        pytest.skip("a GPU is here; nothing to provide")
    code, _, err = tarmac("train", "digits-mlp", "--device", "cuda")
    assert code == 2
    assert "but " in err
    assert "Use cpu, or cpu:2" in err


def test_an_unknown_option_lists_a_few_valid_ones_with_their_defaults_or_names_the_help(tarmac):
    _, _, err = tarmac("report", "latest", "--nonsense")
    said = [" ".join(line.split()) for line in err.splitlines()]
    assert "--output default TARMAC_RUNS or ./runs" in said
    _, _, err = tarmac("train", "digits-mlp", "--nonsense")
    assert err.endswith("See: tarmac train --help\n")


def test_a_models_own_error_is_one_line_and_debug_shows_where(tarmac, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import dataclasses\nfrom tarmac.workloads.digits_mlp import workload as known\n"
        "def model():\n    return [][1]\n"
        "workload = dataclasses.replace(known, model=model)\n"
    )
    code, _, err = tarmac("train", "mine.py:workload")
    assert code == 1
    assert err.startswith("error: IndexError: list index out of range\n")
    assert "mine.py:4" in err
    assert "Traceback" not in err
    assert "Traceback" in tarmac("train", "mine.py:workload", "--debug")[2]


def test_runs_are_listed_shown_compared_and_removed(tarmac, tmp_path):
    for hidden in ("8", "16"):
        tarmac("train", "digits-mlp", "--epochs", "2", "--set", f"hidden={hidden}")
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    _, out, _ = tarmac("runs", "list")
    assert all(name in out for name in names)
    rows = json.loads(tarmac("runs", "list", "--json")[1])
    assert [row["status"] for row in rows] == ["completed", "completed"]

    _, out, _ = tarmac("runs", "show", "latest")
    assert "batch_size" in out
    assert "test_accuracy" in out
    shown = json.loads(tarmac("runs", "show", "latest", "--json")[1])
    assert [row["epoch"] for row in shown["history"]] == [1, 2]

    _, out, _ = tarmac("runs", "compare", *names)
    assert "configuration.settings.hidden" in out
    assert "batch_size" not in out
    compared = json.loads(tarmac("runs", "compare", *names, "--json")[1])
    assert sorted(compared["differences"]["configuration.settings.hidden"]) == [8, 16]

    code, _, err = tarmac("runs", "rm", names[0])
    assert code == 2
    assert "--yes" in err
    assert tarmac("runs", "rm", names[0], "--yes")[0] == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [names[1]]


SLOW = """
import dataclasses, os, signal
from tarmac.workloads.digits_mlp import workload as known
calls = 0
def preprocess(inputs, *, training, dtype):
    global calls
    calls += 1
    if calls == 100:
        os.kill(os.getpid(), getattr(signal, os.environ["SEND"]))
    return known.recipe.preprocess(inputs, training=training, dtype=dtype)
workload = dataclasses.replace(
    known, recipe=dataclasses.replace(known.recipe, preprocess=preprocess))
"""


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
def test_a_signal_saves_the_state_and_says_how_to_go_on(tmp_path, sent):
    (tmp_path / "slow.py").write_text(SLOW)
    command = ("-m", "tarmac", "train", "slow.py:workload", "--epochs", "4")
    stopped = run_python(*command, env=os.environ | {"SEND": sent})
    assert stopped.returncode == 130
    assert stopped.stderr.startswith("interrupted; the state is saved\n")
    resume = stopped.stderr.split("Resume it: tarmac ")[1].split()
    resumed = run_python("-m", "tarmac", *resume, env=os.environ | {"SEND": "SIGCONT"})
    assert resumed.returncode == 0, resumed.stderr
    assert "epoch 4/4" in resumed.stdout
    assert "epoch 1/4" not in resumed.stdout


def test_a_resumed_run_keeps_its_devices_and_is_checked_unless_the_line_says_otherwise(
    tarmac, monkeypatch
):
    calls = []

    @contextlib.contextmanager
    def checking(reporter, *, quiet):
        del quiet
        calls.append("checked")
        yield reporter

    def resume(reference, *, devices, **_):
        calls.append((reference, devices))
        raise RequestError("no further")

    monkeypatch.setattr("tarmac.cli.preflight.checking", checking)
    monkeypatch.setattr("tarmac.training.resume", resume)
    tarmac("train", "--resume", "r")
    tarmac("train", "--resume", "r", "--devices", "cpu:2", "--no-check")
    assert calls == ["checked", ("r", None), ("r", "cpu:2")]


def test_a_resumed_run_takes_no_changes(tarmac):
    code, _, err = tarmac("train", "--resume", "latest", "--epochs", "3")
    assert code == 2
    assert "--epochs cannot be changed in a resumed run" in err
    assert "tarmac train --from-checkpoint latest --epochs 3" in err


def test_a_reader_that_goes_away_is_no_error():
    process = subprocess.run(
        f"{forked_interpreter()} -m tarmac train --list | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "digits-mlp" in process.stdout
    assert "Traceback" not in process.stderr


def test_a_training_on_a_cluster_is_told_all_that_is_of_the_training(tarmac, monkeypatch):
    jobs = []

    def prepare(job, *_, **__):
        jobs.append(job)
        raise RequestError("this is far enough")

    monkeypatch.setattr("tarmac.jobs.prepare", prepare)
    words = ("--epochs", "2", "--set", "hidden=8", "--set", "dropout=0", "--no-check")
    code, _, _ = tarmac("train", "digits-mlp", *words, "--on", "slurm", "--nodes", "2", "--verify")
    assert code == 2
    (job,) = jobs
    (task,) = plan_tasks(job, Path())
    line = task.command_line()
    for told in ("--epochs=2", "--set hidden=8 --set dropout=0", "--no-check"):
        assert told in line
    for kept in ("--on", "--nodes", "--verify"):
        assert kept not in line


def test_data_are_listed_verified_and_added(tarmac, tmp_path, monkeypatch):
    monkeypatch.setenv("TARMAC_DATA", str(tmp_path / "data"))
    rows = json.loads(tarmac("data", "list", "--json")[1])
    assert {row["name"]: row["state"] for row in rows} == {
        "diabetes": "embedded",
        "digits": "embedded",
        "noise224": "embedded",
        "mnist": "absent",
        "fashion-mnist": "absent",
        "cifar10": "absent",
        "tinyshakespeare": "absent",
    }
    shapes = {row["name"]: row["sample_shape"] for row in rows}
    assert (shapes["digits"], shapes["noise224"]) == ([8, 8], [3, 224, 224])
    rows = [line.split() for line in tarmac("data", "list")[1].splitlines()]
    assert any(row[:1] == ["digits"] and "8x8" in row for row in rows)
    assert tarmac("data", "verify", "digits")[0] == 0
    code, out, err = tarmac("data", "verify", "mnist", "--json")
    assert code == 1
    assert json.loads(out)["mnist"][0] == {
        "file": "train-images-idx3-ubyte",
        "ok": False,
        "reason": "absent",
    }
    assert "tarmac data fetch mnist" in err
    (tmp_path / "empty").mkdir()
    code, _, err = tarmac("data", "add", "mnist", "--from", "empty")
    assert code == 2
    assert "lacks train-images-idx3-ubyte" in err


@pytest.mark.mnist
def test_mnist_is_added_from_a_directory(tarmac, mnist, tmp_path, monkeypatch):
    origin = f"{os.environ['TARMAC_DATA']}/mnist"
    monkeypatch.setenv("TARMAC_DATA", str(tmp_path / "data"))
    assert tarmac("data", "add", "mnist", "--from", origin)[0] == 0
    assert tarmac("data", "verify", "mnist")[0] == 0


@pytest.mark.parametrize("verb", ["train", "search"])
@pytest.mark.usefixtures("forked_workers")
def test_what_is_made_lies_in_directories_of_any_name(tarmac, tmp_path, verb):
    output = tmp_path.joinpath(*NAMES.values())
    options = {
        "train": ["digits-mlp", "--epochs", "1"],
        "search": ["digits-mlp", "--set", "hidden=8,16", "--epochs", "1", "--method", "brute"],
    }[verb]
    code, _, err = tarmac(verb, *options, "--output", str(output))
    assert code == 0, err
    (made,) = output.iterdir()
    listing = ("runs", "list") if verb == "train" else ("search", "list")
    assert made.name in tarmac(*listing, "--output", str(output), "--json")[1]
