"""Trainings with too little memory on the GPU, and many in one process. Prints one JSON line.

python gpu_faults.py memory|prefetch|out-of-memory
"""

from __future__ import annotations

import json
import sys
import tempfile

import torch

import tarmac
from tarmac.errors import TarmacError

MIB = 2**20


def train(**options):
    with tempfile.TemporaryDirectory() as output:
        return tarmac.train("digits-mlp", devices="cuda:0", output=output, **options)


def memory() -> dict:
    """Twenty trainings in one process hold no more at the end than after the second."""
    held = []
    for seed in range(20):
        train(seed=seed, epochs=1)
        held.append(torch.cuda.memory_allocated() / MIB)
    assert held[-1] <= held[1] + 1, held
    return {"held_mib": held, "reserved_mib": torch.cuda.memory_reserved() / MIB}


def prefetch() -> dict:
    """With samples copied ahead, memory stays where the first epochs have left it."""
    total = torch.cuda.get_device_properties(0).total_memory
    # Enough for any library's workspace, and little enough that a leak of a batch a step shows.
    torch.cuda.set_per_process_memory_fraction(min(1.0, 1024 * MIB / total))
    reserved = []

    def noted(_row) -> None:
        reserved.append(torch.cuda.memory_reserved() / MIB)

    train(epochs=12, batch_size=16, feed="prefetch", stop=noted)
    assert reserved[-1] <= reserved[2] + 4, reserved
    return {"reserved_mib": reserved}


def out_of_memory() -> dict:
    """The error says what to do, and the GPU can be used afterwards."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(256 * MIB / total)
    text = ""
    try:
        train(epochs=1, settings={"hidden": 40000}, batch_size=1438)
    except TarmacError as error:
        text = str(error)
    assert "memory" in text, text or "no error came"
    train(epochs=1)
    return {"message": text, "held_mib": torch.cuda.memory_allocated() / MIB}


if __name__ == "__main__":
    parts = {"memory": memory, "prefetch": prefetch, "out-of-memory": out_of_memory}
    print(json.dumps(parts[sys.argv[1]]()))
