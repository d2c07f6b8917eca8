"""``tarmac search``: what it prints, and how it refuses."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

from forked import forked_interpreter, run_python, start_python
from tarmac.studies import Choices, Space, Study
from tarmac.testing.stand_in import StandIn, make_study, search_without_networks

pytestmark = pytest.mark.usefixtures("forked_workers")

# Not a fork, which has imported all.
PYTHON = sys.executable


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A study that is completed, of four networks."""
    from tarmac.studies import search

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", forked_interpreter())
        return search(
            "digits-mlp",
            space={"hidden": [8, 64], "dropout": [0.0, 0.2]},
            population=4,
            generations=2,
            epochs=2,
            output=tmp_path_factory.mktemp("done"),
        )


SMALL = ["digits-mlp", "--set", "hidden=8,16", "--epochs", "1", "--method", "brute"]


def test_a_search_prints_a_line_per_network_and_the_best(tarmac):
    code, out, _ = tarmac("search", *SMALL)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("digits-mlp: brute over 2 networks of digits-mlp, judged by val_acc")
    assert [line.split()[0] for line in lines[1:3]] == ["trains", "study"]
    assert sum(" complete " in line for line in lines) == 2
    assert "ended, all 2 networks of the space were tried: 2 networks trained, 2 distinct\n" in out
    assert "retrained on all training data: test accuracy 0." in out
    assert (
        "train it again: tarmac train digits-mlp --epochs 1 --seed 0 --monitor accuracy:max "
        "--set hidden=" in out
    )
    assert lines[-1].startswith("study runs/digits-mlp-")


def test_json_is_all_that_is_printed_where_it_is_asked_for(tarmac):
    code, out, err = tarmac("search", *SMALL, "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert result["status"] == "completed"
    assert result["totals"]["trained"] == 2
    assert result["best"]["command"].startswith("tarmac train digits-mlp")


def test_a_study_is_listed_and_shown(tarmac, done):
    output = ["--output", str(done.path.parent)]
    code, out, _ = tarmac("search", "list", *output)
    assert code == 0
    assert done.name in out
    assert json.loads(tarmac("search", "list", "--json", *output)[1])[0]["name"] == done.name
    code, out, _ = tarmac("search", "show", "latest", *output)
    assert code == 0
    assert "digits-mlp by evolve over 4 networks, seed 0" in out
    assert out.count(" complete ") == 4
    shown = json.loads(tarmac("search", "show", str(done.path), "--json")[1])
    assert len(shown["trials"]) == 4
    assert tarmac("search", "list")[1].strip().endswith("there are no studies in runs")


def test_what_a_network_failed_with_is_shown_letter_by_letter(tarmac, tmp_path):
    study = make_study(tmp_path, Space({"neurons": Choices((16, 32, 64))}), method="random")
    words = "[Errno 28] No space left [/tmp] [red]"
    search_without_networks(study, StandIn(fail=lambda one: words if one.number == 1 else None))
    code, out, err = tarmac("search", "show", str(study.path))
    assert (code, err) == (0, "")
    assert words in out


def test_the_best_network_comes_with_the_line_that_makes_it(tarmac, done):
    code, out, _ = tarmac("search", "best", str(done.path))
    assert code == 0
    assert f"best: network {done.best.number}, val_accuracy" in out
    assert "\n  hidden = 64\n" in out
    best = json.loads(tarmac("search", "best", str(done.path), "--json")[1])["best"]
    words = best["command"].split()
    code, out, _ = tarmac(*words[1:], "--json")
    assert code == 0
    assert json.loads(out)["metrics"]["test_accuracy"] == best["test_accuracy"]


def test_trials_are_exported_with_a_column_each(tarmac, done, tmp_path):
    code, out, _ = tarmac("search", "export", str(done.path))
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["number"] for row in rows] == ["0", "1", "2", "3"]
    assert {"val_accuracy", "hidden", "dropout", "epochs", "num_parameters"} <= rows[0].keys()
    tarmac("search", "export", str(done.path), "--to", "trials.json")
    assert json.loads((tmp_path / "trials.json").read_text())[3]["number"] == 3
    code, _, err = tarmac("search", "export", str(done.path), "--to", "trials.xlsx")
    assert (code, "trials are not written as .xlsx" in err) == (2, True)
    assert not (tmp_path / "trials.xlsx").exists()
    tarmac("search", "export", str(done.path), "--to", "trials.txt", "--format", "csv")
    assert (tmp_path / "trials.txt").read_text() == out


def test_the_page_of_plots_needs_nothing_else(tarmac, done):
    code, out, _ = tarmac("search", "plot", str(done.path))
    assert code == 0
    page = (done.path / "plot.html").read_text()
    assert out == f"wrote {done.path / 'plot.html'}\n"
    for title in (
        "Fitness per generation",
        "Cost against fitness",
        "Parallel coordinates",
        "Importance",
        "Slices",
    ):
        assert f">{title}</h2>" in page
    assert "cannot tell" not in page
    assert "<script src=" not in page
    assert "<link" not in page


def test_the_dashboard_serves_the_study(done):
    from tarmac.studies import serve_dashboard

    found = []
    answered = threading.Event()

    def ready(url):
        found.append(url)
        answered.set()

    threading.Thread(
        target=serve_dashboard, args=(Study.open(done.path), "127.0.0.1", 0, ready), daemon=True
    ).start()
    assert answered.wait(60)
    root, _, number = found[0].partition("/dashboard/studies/")
    with urllib.request.urlopen(f"{root}/api/studies/{number}?after=0") as answer:
        assert len(json.load(answer)["trials"]) == 4
    port = root.rpartition(":")[2]
    for foreign in ({"Host": f"evil.example:{port}"}, {"Origin": "http://evil.example"}):
        asked = urllib.request.Request(f"{root}/api/studies", headers=foreign)
        with pytest.raises(urllib.error.HTTPError, match="421"):
            urllib.request.urlopen(asked)


IMPATIENT = """
import os, signal
from torch import nn
from tarmac.workloads import Adam, Recipe, Workload

def model(hidden: int = 8):
    # Once the search takes SIGINT for a wish to stop: Ctrl-C, and Ctrl-C again.
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, signal.SIG_IGN):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))

own = Workload(
    name="own", summary="x", dataset="digits", model=model,
    recipe=Recipe(
        optimizer=Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8),
        batch_size=64, epochs=1,
    ),
)
"""


def test_a_second_ctrl_c_is_told_like_the_first(tmp_path):
    (tmp_path / "own.py").write_text(IMPATIENT)
    line = ("-m", "tarmac", "search", "own.py:own", "--set", "hidden=8,16")
    done = run_python(*line, cwd=tmp_path)
    (path,) = (tmp_path / "runs").iterdir()
    assert done.returncode == 130
    assert done.stderr.splitlines() == [
        "interrupted; finished networks are kept, unfinished ones will be trained again",
        f"  Resume it: tarmac search --resume runs/{path.name}",
    ]
    assert Study.open(path).record.status == "interrupted"


def test_ctrl_c_ends_the_dashboard_and_is_no_error(done):
    line = ("-m", "tarmac", "search", "dashboard", done.path, "--port", "0")
    with start_python(*line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as one:
        assert "Ctrl-C ends it" in one.stdout.readline()
        one.send_signal(signal.SIGINT)
        out, err = one.communicate()
    assert (one.returncode, out, err.strip()) == (130, "", "interrupted")


def test_a_missing_extra_is_named(tarmac, done, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name.startswith("optuna_d") else find(name, *rest),
    )
    code, _, err = tarmac("search", "dashboard", str(done.path))
    assert code == 2
    assert "optuna-dashboard" in err
    assert "not installed" in err
    assert "pip install 'tarmac-gpu[search]'" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no workload or study is named"),
        (["digits-mpl", "--set", "hidden=1,2"], "unknown workload 'digits-mpl', did you mean"),
        (["digits-mlp"], "there is nothing to search over: no setting of digits-mlp has several"),
        (["digits-mlp", "--set", "hiden=1,2"], "unknown setting of digits-mlp 'hiden', did you"),
        (["digits-mlp", "--set", "lr=1,2"], "did you mean 'learning_rate'?"),
        (["digits-mlp", "--set", "hidden="], "hidden has no values, expected at least one"),
        (["digits-mlp", "--set", "hidden=8", "--set", "hidden=9"], "--set hidden is given twice"),
        ([*SMALL[:3], "--population", "1"], "population is 1, expected at least 2"),
        ([*SMALL[:3], "--retain", "0.01"], "retain is 0.01, which keeps none of a population of"),
        ([*SMALL[:3], "--method", "evlove"], "unknown --method 'evlove', did you mean 'evolve'?"),
        ([*SMALL[:3], "--budget", "soon"], "expected a length of time, such as 90s"),
        ([*SMALL[:3], "--train-size", "1500"], "1500 samples to train on and 1 held out are 1501"),
        ([*SMALL[:3], "--validation-size", "2000"], "2000, which leaves none of the 1438 samples"),
        ([*SMALL[:3], "--devices", "tpu"], "devices is 'tpu', expected auto, all"),
        ([*SMALL[:3], "--storage", "study.db"], "'study.db', which is not a database URL"),
        (["missing.yaml"], "missing.yaml: cannot be read"),
        (["--resume", "latest"], "there is no run 'latest' in runs"),
        (["digits-mlp", "--set", "learning_rate=-1,1"], "learning_rate is -1, expected above 0"),
        ([*SMALL[:3], "--epohcs", "1"], "unknown option '--epohcs', did you mean '--epochs'?"),
        ([*SMALL[:3], "--objective", "epochs"], "every network of digits-mlp trains equally long"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_refused_before_anything_is_made(
    tarmac, tmp_path, arguments, message
):
    code, out, err = tarmac("search", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "runs").exists()


def test_a_database_that_cannot_be_reached_leaves_nothing_behind(tarmac, tmp_path):
    code, _, err = tarmac("search", *SMALL, "--storage", f"sqlite:///{tmp_path}/no/where.db")
    assert code == 1
    assert "cannot be reached" in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "tpe"], "was started with method evolve, not tpe"),
        (["--set", "hidden=8,32"], "was started over another space (hidden)"),
        (["--set", "dropout=0.1"], "was started over another space (dropout)"),
        (["--population", "8"], "was started with population 4, not 8"),
        (["--seed", "1"], "was started with seed 0, not 1"),
        (["--epochs", "9"], "was started with epochs 2, not 9"),
        (
            ["mnist-mlp", "--set", "hidden=8,64"],
            "was started with workload digits-mlp, not mnist-mlp",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_another_search_is_no_resumed_one(tarmac, done, arguments, message):
    before = (done.path / "study.json").read_bytes()
    code, _, err = tarmac("search", "--resume", str(done.path), *arguments)
    assert code == 2
    assert message in err
    assert (done.path / "study.json").read_bytes() == before


def test_a_study_whose_workload_is_named_again_keeps_its_space(tarmac, done):
    code, out, err = tarmac("search", "digits-mlp", "--resume", str(done.path))
    assert (code, err) == (0, "")
    assert "so far   4 of about 4 networks trained" in out


def test_a_resumed_study_may_be_asked_for_in_the_same_words(tarmac, done):
    same = ["digits-mlp", "--set", "hidden=8,64", "--set", "dropout=0.0,0.2", "--epochs", "2"]
    same += ["--population", "4", "--generations", "2"]
    code, out, err = tarmac("search", *same, "--resume", str(done.path))
    assert (code, err) == (0, "")
    assert "so far   4 of about 4 networks trained" in out


def test_a_file_is_a_study_and_its_errors_have_places(tarmac, tmp_path):
    (tmp_path / "study.yaml").write_text(
        "workload: digits-mlp\nmethod: brute\nepochs: 1\nspace:\n  hidden: [8, 16]\n  dropout: 0\n"
    )
    code, out, _ = tarmac("search", "study.yaml")
    assert code == 0
    assert "study runs/study-" in out
    (tmp_path / "study.yaml").write_text("workload: digits-mlp\nspace:\n  hiden: [8, 16]\n")
    code, _, err = tarmac("search", "study.yaml")
    assert code == 2
    assert "study.yaml:3:3: space.hiden: unknown setting of digits-mlp 'hiden', did you" in err


def test_importing_search_loads_neither_optuna_nor_torch():
    program = (
        "import sys, tarmac.studies, tarmac.cli.commands.search\n"
        "print([name for name in ('optuna', 'torch') if name in sys.modules])"
    )
    command = [PYTHON, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_dry_run_says_what_would_be_searched_and_makes_nothing(tarmac, tmp_path):
    code, out, err = tarmac("search", *SMALL, "--dry-run", "--train-size", "1000")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "digits-mlp by brute over 2 networks, seed 0",
        "each trains 1 epoch at most, on 1,000 samples, judged by "
        "200 held-out samples (drawn by the seed)",
        "  hidden  8, 16",
        "study runs/STUDY",
    ]
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("values", "words", "text"),
    [
        ("8,16", "8, 16", "[8, 16]"),
        ("16..512:log", "16 to 512, on a logarithmic scale", "16..512:log"),
        # The end is none of the values.
        ("8..30:10", "8, 18, 28", "8..30:10"),
        ("8..800:10", "8 to 800 in steps of 10", "8..800:10"),
        ("8..64", "8 to 64", "8..64"),
    ],
)
def test_a_dry_run_shows_the_space_and_writes_it_as_a_file(tarmac, tmp_path, values, words, text):
    dry = ("--set", f"hidden={values}", "--set", "dropout=0.2", "--trials", "2", "--dry-run")
    out = tarmac("search", "digits-mlp", *dry)[1]
    assert f"\n  hidden   {words}\n  dropout  0.2, fixed\n" in out
    written = tarmac("search", "digits-mlp", *dry, "--yaml")[1]
    assert f"\n  hidden: {text}\n  dropout: 0.2\n" in written
    (tmp_path / "study.yaml").write_text(written)
    assert tarmac("search", "study.yaml", "--dry-run", "--yaml") == (0, written, "")
    assert tarmac("search", "study.yaml", "--dry-run") == (0, out, "")


def test_a_file_of_a_study_keeps_conditions_datasets_and_the_workloads_place(tarmac, tmp_path):
    (tmp_path / "study.yaml").write_text(
        "workload: mlp\nspace: {layers: [1, 2], neurons: {choices: [8, 16], when: {layers: 2}},"
        " dataset: digits}\ndatasets: {digits: {batch_size: 16}}\n"
    )
    written = tarmac("search", "study.yaml", "--dry-run", "--yaml")[1]
    assert "neurons:\n    choices: [8, 16]\n    when:\n      layers: [2]\n" in written
    assert "datasets:\n  digits:\n    batch_size: 16\n" in written
    assert (
        "neurons     8, 16, where layers is 2\n" in tarmac("search", "study.yaml", "--dry-run")[1]
    )
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "again.yaml").write_text(written)
    again = tarmac("search", "elsewhere/again.yaml", "--dry-run", "--yaml")
    assert again == (0, written, "")


@pytest.mark.parametrize("words", [["--yaml"], ["--yaml", "--dry-run", "--json"]])
def test_a_file_of_a_study_is_of_a_dry_run_alone(tarmac, words):
    code, _, err = tarmac("search", *SMALL, *words)
    assert (code, "--yaml is for --dry-run" in err) == (2, True)


def test_a_dry_run_refuses_what_the_search_would_refuse(tarmac, tmp_path):
    code, _, err = tarmac("search", "digits-mlp", "--set", "hiden=8,16", "--dry-run")
    assert code == 2
    assert "hiden" in err
    assert [*tmp_path.iterdir()] == []


def test_a_dry_run_shows_no_password_of_a_database(tarmac):
    storage = "postgresql://anna:geheim@host/studies"
    words = ("search", *SMALL, "--dry-run", "--storage", storage)
    for more in ((), ("--json",)):
        code, out, err = tarmac(*words, *more)
        assert code == 0
        assert "geheim" not in out + err
    assert json.loads(out)["request"]["storage"] == "postgresql://anna:***@host/studies"
    assert "storage" not in tarmac(*words, "--yaml")[1]


def test_a_dry_run_of_a_study_says_what_is_left_of_it_and_changes_nothing(tarmac, done):
    before = (done.path / "study.json").read_bytes()
    words = ("search", "--resume", str(done.path), "--generations", "3", "--dry-run")
    code, out, _ = tarmac(*words)
    assert code == 0
    assert f"{len(done.trials)} trials have ended, and are not repeated" in out
    said = json.loads(tarmac(*words, "--json")[1])
    assert said["request"]["generations"] == 3
    assert said["path"] == str(done.path)
    assert (done.path / "study.json").read_bytes() == before


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["--set", "hidden=-5..-1"], "hidden ends at -5"),
        (["--set", "hidden=0,-1"], "hidden has -1"),
        (["--set", "dropout=0..2:0.5"], "dropout ends at 2.0"),
        (["--set", "hidden=1000000000000,8"], "hidden has 1000000000000"),
    ],
)
def test_impossible_values_are_refused_in_the_dry_run_and_make_no_study(
    tarmac, tmp_path, command, name
):
    for dry in (["--dry-run"], []):
        code, _, err = tarmac(
            "search", "digits-mlp", *command, *dry, "--output", str(tmp_path / "runs")
        )
        assert code == 2
        assert name in err
    assert not (tmp_path / "runs").exists()
