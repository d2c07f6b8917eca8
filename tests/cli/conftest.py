"""What tests of the command line have in common."""

from __future__ import annotations

import pytest

from tarmac.cli import main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TARMAC_RUNS", raising=False)


@pytest.fixture
def tarmac(capsys):
    """Return a function that runs the command line and returns (exit code, out, err)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return run


@pytest.fixture(autouse=True, scope="session")
def _needs_torch():
    pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")
