"""A directory with all that the pages name, and the command line in it."""

from __future__ import annotations

import contextlib
import functools
import http.server
import io
import json
import runpy
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from nearest import end_soon
from prepared import (
    TRAININGS,
    prepare_files,
    prepare_machine,
    small_mnist,
    small_sources,
)

import tarmac
from command_line import tarmac as tarmac_fixture
from forked import forked_interpreter
from shared import made_once
from tarmac.cli import main
from tarmac.data import sources

_CP = shutil.which("cp") or "cp"

# Under the name of the command that it runs.
run_tarmac = pytest.fixture(name="tarmac")(tarmac_fixture.__wrapped__)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the directory with a home, programs, and datasets, which a server on it has too."""
    directory = tmp_path_factory.mktemp("machine")
    prepare_machine(directory)
    handler = functools.partial(_Quiet, directory=str(directory / "mirror"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as mirror:
        threading.Thread(target=mirror.serve_forever, args=(0.05,), daemon=True).start()
        (directory / "address").write_text(f"http://127.0.0.1:{mirror.server_port}")
        yield directory
        mirror.shutdown()


@pytest.fixture(autouse=True)
def typed(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands be typed in an empty directory, on a machine without GPUs or clusters."""
    _enter(machine, tmp_path, monkeypatch)


def _enter(machine: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = directory / "here"
    here.mkdir(exist_ok=True)
    monkeypatch.chdir(here)
    for name in ("KUBECONFIG", "RAY_ADDRESS", "SLURM_CONF", "TARMAC_RUNS", "TARMAC_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(machine / "home"))
    monkeypatch.setenv("PATH", str(machine / "programs"))
    monkeypatch.setenv("RAY_TMPDIR", str(machine / "ray"))
    monkeypatch.setenv("TARMAC_DATA", str(directory / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine / "cache"))
    monkeypatch.setenv("TARMAC_MIRROR", (machine / "address").read_text())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("USER", "me")
    for name, source in small_sources(small_mnist()).items():
        monkeypatch.setitem(sources.SOURCES, name, source)
    monkeypatch.setattr(sys, "executable", forked_interpreter())


@pytest.fixture(scope="session")
def template(machine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory with every file and run that the pages name, for all workers."""

    def make(directory: Path) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            _enter(machine, directory, monkeypatch)
            end_soon(monkeypatch)
            prepare_files(Path.cwd())
            _make_runs()
            _make_reports()
            for name in ("mnist", "fashion-mnist"):
                tarmac.data.fetch(name)

    directory = made_once("template", make)
    with pytest.MonkeyPatch.context() as monkeypatch:
        _enter(machine, tmp_path_factory.mktemp("probed"), monkeypatch)
        end_soon(monkeypatch)
        # The one probe of PyTorch that commands of this worker see, if it has not made the reports.
        type_here("check", "torch", "--quick")
    return directory


@pytest.fixture
def prepared(template: Path, tmp_path: Path, typed: None) -> Path:
    """Copy the prepared directory; return the one to type commands in."""
    # Some 250 files, which shutil takes ten times as long for.
    copy = [_CP, "-a", str(template / "here"), str(template / "data"), str(tmp_path)]
    subprocess.run(copy, check=True)
    return tmp_path / "here"


def _make_runs() -> None:
    """Make a study, trainings of many names, one that was interrupted, and jobs; one failed."""
    runs = Path("runs")
    study = tarmac.search("digits-mlp", space={"hidden": [8, 16]}, method="brute", epochs=1)
    study.path.rename(runs / "STUDY")
    training = tarmac.train("digits-mlp", epochs=1, sampling=False)
    for name in TRAININGS:
        shutil.copytree(training.path, runs / name)
    own = tarmac.train("my_model.py:workload", epochs=1, sampling=False)
    shutil.copy(own.model, "weights.safetensors")
    own.path.rename(runs / "OWN")
    steps = iter(range(60))
    tarmac.train(
        "digits-mlp", epochs=2, sampling=False, interrupted=lambda: next(steps, None) is None
    )
    torch.save(runpy.run_path("loop.py")["Network"]().state_dict(), "loop.pt")
    for line in ("run failing.yaml", "run greeting.yaml", "run job.yaml"):
        type_here(*line.split())
    failed = next(runs.glob("sweep-*"))
    failed = failed.rename(runs / "sweep-20261122-101500-ab12")
    (failed / "go").touch()


def _make_reports() -> None:
    report = type_here("check", "--quick", "--json")
    assert json.loads(report)["findings"] is not None
    for name in ("check", "n01", "n02", "n03"):
        Path(f"{name}.json").write_text(report)
    type_here("check", "--quick", "--save", "good.json")
    Path("train-digits.json").write_text(type_here("convert", "train.yaml", "--to", "hkube"))


def type_here(*words: str) -> str:
    """Type a command while no test runs; return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main(words)
    return printed.getvalue()
