"""A stand-in for NVIDIA's management library, built by the C compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.checks.evidence import Inventory

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory) -> Path:
    """Return the directory of a libnvidia-ml.so.1."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is here; provide one: sudo apt install gcc")
    directory = tmp_path_factory.mktemp("nvml")
    library = directory / "libnvidia-ml.so.1"
    source = HERE / "nvml_stand_in.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return directory


@pytest.fixture
def on_machine(stand_in):
    """Return a function that gives the environment in which a machine's GPUs are seen."""

    def give(name: str, **environment: str) -> dict[str, str]:
        return (
            os.environ
            | {
                "LD_LIBRARY_PATH": str(stand_in),
                "NVML_STAND_IN": str(HERE / "machines" / f"{name}.txt"),
            }
            | environment
        )

    return give


@pytest.fixture
def inventory_of(on_machine):
    """Return a function that reads the inventory of a machine by its name."""

    def read(name: str, **environment: str) -> Inventory:
        program = (
            "from tarmac.checks.inventory import read_inventory\n"
            "print(read_inventory().model_dump_json())"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=on_machine(name, **environment),
            capture_output=True,
            text=True,
            check=True,
        )
        return Inventory.model_validate(json.loads(done.stdout))

    return read
