"""A search of which one network waits for the test: what befalls its worker meanwhile is chosen."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import tarmac

_GATED = """
    import os, sys, time
    from pathlib import Path
    import torch
    from torch import nn
    from tarmac.workloads import SGD, Recipe, Scale, Workload

    HERE = Path(__file__).parent

    class Net(nn.Sequential):
        def __init__(self, hidden):
            super().__init__(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
            self.hidden = hidden
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.waits, self.is_new = (HERE / "gate").exists(), True

        def forward(self, inputs):
            if self.training and self.hidden == 13:
                self.may_wait()
            self.steps += self.training
            return super().forward(inputs)

        def may_wait(self):
            if self.waits and self.is_new:
                self.is_new = False
                with (HERE / "steps").open("a") as file:
                    file.write(str(int(self.steps)) + chr(10))
            if self.waits and int(self.steps) >= self.first():
                array = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")
                unit = "_".join(os.environ[name] for name in array if name in os.environ)
                unit = unit or os.environ.get("SLURM_JOB_ID")
                unit = unit or f"{os.uname().nodename}:{os.getpid()}"
                with (HERE / "waiting").open("a") as file:
                    file.write(unit + chr(10))
                while (HERE / "gate").exists():
                    time.sleep(0.05)
                self.waits = False

        def first(self):
            try:
                return int((HERE / "gate").read_text() or 0)
            except FileNotFoundError:
                return 0

    gated = Workload(
        name="gated", summary="", dataset="digits", model=lambda hidden=8: Net(hidden),
        recipe=Recipe(
            optimizer=SGD(learning_rate=0.05, momentum=0.9, nesterov=False),
            batch_size=64, epochs=2, preprocess=Scale(factor=1 / 16),
        ),
    )
    """

_STEPS_OF_AN_EPOCH = 19

SPACE = {"hidden": [8, 13, 16, 24]}


def write_gated(directory: Path) -> str:
    """Write the workload and return its name.

    The network of 13 neurons says where it is trained, and waits until it may go on: at the step
    after the number in the file "gate" beside the workload, until that file is gone. How many
    steps it had behind it when its process began is written too.
    """
    (directory / "gated.py").write_text(textwrap.dedent(_GATED))
    return f"{directory}/gated.py:gated"


def search_here(directory: Path) -> tuple[list[tuple[Any, ...]], Any]:
    """Search on this machine, where no network waits; return the results and the winner."""
    study = tarmac.search(
        write_gated(directory), space=SPACE, method="brute", workers=1, output=directory
    )
    return results(study), study.best


def waiting(directory: Path) -> list[str]:
    """Return where the network has waited: a job of Slurm's, else ``HOST:PID``.

    Where it waits in its second epoch, it does not count before the checkpoint of the first is
    there, which another thread writes.
    """
    gate = directory / "gate"
    in_second = gate.exists() and int(gate.read_text() or 0) >= _STEPS_OF_AN_EPOCH
    return [] if in_second and not _has_checkpoint(directory) else _words(directory / "waiting")


def _has_checkpoint(directory: Path) -> bool:
    records = (path.parents[1] / "run.json" for path in directory.rglob("checkpoints/epoch-*"))
    return any(
        json.loads(r.read_text())["configuration"]["settings"]["hidden"] == 13 for r in records
    )


def steps(directory: Path) -> list[int]:
    """Return the steps that the network had behind it each time that a process took it up."""
    return [int(word) for word in _words(directory / "steps")]


def results(study: Any) -> list[tuple[Any, ...]]:
    """Return what each trial of a study came to."""
    return [
        (row["number"], row["state"], row["params"], row.get("val_accuracy"))
        for row in study.trials
    ]


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
