"""A small training of each kind, once for all tests here."""

from __future__ import annotations

import pytest
from inference_models import pair, regression

from tarmac import training
from tarmac.cli import main


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """A classifier of images, in a reference workload."""
    output = tmp_path_factory.mktemp("runs")
    return training.train("digits-mlp", epochs=2, output=output, device="cpu")


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """A regression on a table of floats, as a value."""
    output = tmp_path_factory.mktemp("runs")
    return training.train(regression, output=output, device="cpu")


@pytest.fixture(scope="session")
def parts(tmp_path_factory):
    """A model of two inputs that returns a dictionary."""
    output = tmp_path_factory.mktemp("runs")
    return training.train(pair, output=output, device="cpu")


@pytest.fixture
def line(capsys):
    """Return a function that runs the command line and returns (exit code, out, err)."""

    def run(*words):
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run
