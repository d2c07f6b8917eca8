"""What waking the driver does, and where it leaves the GPU alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """Return the directory of a libcuda that tells what it was asked."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler is here; provide one: sudo apt install gcc")
    directory = tmp_path_factory.mktemp("libcuda")
    source = HERE / "cuda_driver_stand_in.c"
    command = [compiler, "-shared", "-fPIC", "-o", directory / "libcuda.so.1", source]
    subprocess.run(command, check=True)
    return directory


def calls(directory: Path, where: Path, *, with_context: bool, **machine: str) -> list[str]:
    written = where / "calls"
    code = (
        f"from tarmac.machine.driver import wake_driver\nwake_driver(with_context={with_context})"
    )
    environment = {"LD_LIBRARY_PATH": str(directory), "DRIVER_CALLS": str(written)}
    subprocess.run([sys.executable, "-c", code], env=os.environ | environment | machine, check=True)
    return written.read_text().split() if written.exists() else []


def test_a_process_that_computes_on_the_one_gpu_begins_with_its_context(library, tmp_path):
    assert calls(library, tmp_path, with_context=True) == ["init", "context"]


@pytest.mark.parametrize(
    "machine",
    [
        {"DRIVER_GPUS": "0"},
        {"DRIVER_GPUS": "2"},  # which one is not chosen yet
        {"DRIVER_MODE": "3"},  # exclusive
        {"DRIVER_ERROR": "100"},
    ],
)
def test_no_context_is_made_where_another_may_need_the_gpu(library, tmp_path, machine):
    assert calls(library, tmp_path, with_context=True, **machine) == ["init"]


def test_a_process_that_only_plans_makes_no_context(library, tmp_path):
    assert calls(library, tmp_path, with_context=False) == ["init"]


def test_without_a_driver_nothing_happens(tmp_path):
    assert calls(tmp_path, tmp_path, with_context=True) == []
