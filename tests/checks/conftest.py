"""The inventory of machines that a stand-in for NVIDIA's management library describes."""

from __future__ import annotations

import dataclasses
import json

import pytest

from forked import forked_interpreter, run_python
from tarmac.checks import verb
from tarmac.checks.evidence import Inventory


@pytest.fixture
def forked_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let probes that this process starts run in forks that have imported PyTorch."""
    target = dataclasses.replace(verb.THIS_PYTHON, command=(forked_interpreter(),))
    monkeypatch.setattr(verb, "THIS_PYTHON", target)


@pytest.fixture
def inventory_of(on_machine):
    """Return a function that reads the inventory of a machine by its name."""

    def read(name: str, **environment: str) -> Inventory:
        program = (
            "from tarmac.checks.inventory import read_inventory\n"
            "print(read_inventory().model_dump_json())"
        )
        done = run_python("-c", program, env=on_machine(name, **environment), check=True)
        return Inventory.model_validate(json.loads(done.stdout))

    return read
