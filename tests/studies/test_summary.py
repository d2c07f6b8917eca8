"""What a list of runs of all kinds learns of a study from its directory alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tarmac.errors import RequestError
from tarmac.studies import Winner, is_study, read_summary, remove_study
from tarmac.testing.stand_in import search_without_networks as search


def test_a_study_is_known_by_its_directory(make_study, tmp_path):
    study = make_study(generations=1, population=4)
    assert is_study(study.path)
    assert not is_study(tmp_path)
    summary = read_summary(study.path)
    assert (summary.name, summary.workload, summary.method) == (study.name, "mlp", "evolve")
    assert (summary.status, summary.winner_run, summary.values) == ("interrupted", None, {})


def test_a_winners_run_is_found_from_the_summary(make_study):
    study = make_study(generations=1, population=4)
    winner = Winner(
        number=1,
        settings={"neurons": 64},
        values={"val_accuracy": 0.5},
        epochs=2,
        test_accuracy=0.4,
        run="best/mlp-1",
    )
    study.update(status="completed", best=winner)
    summary = read_summary(study.path)
    assert summary.winner_run == study.path / "best" / "mlp-1"
    assert (summary.status, summary.values) == ("completed", {"val_accuracy": 0.5})


def test_a_summary_loads_neither_optuna_nor_pytorch(make_study):
    study = make_study()
    program = (
        "import sys, pathlib; from tarmac.studies import read_summary; "
        "read_summary(pathlib.Path(sys.argv[1])); "
        "assert not {'torch', 'optuna'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program, study.path], check=True)


def test_a_study_is_removed_but_not_while_somebody_works_on_it(make_study):
    study = make_study(generations=1, population=4)
    search(study)
    with study.leases.work() as owner, pytest.raises(RequestError, match=owner):
        remove_study(study.path)
    assert is_study(study.path)
    remove_study(study.path)
    assert not study.path.exists()
    with pytest.raises(RequestError, match="is no study"):
        remove_study(study.path)
