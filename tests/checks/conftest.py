"""What machines with GPUs look like, as they were recorded."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tarmac.checks.evidence import Inventory


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
