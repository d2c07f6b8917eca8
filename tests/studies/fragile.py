"""A workload whose networks fail, each in the way that its setting says.

With ``GATE`` set, a network of 13 neurons writes to that FIFO in its first step, and then waits
for ever.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import torch
from torch import nn

from tarmac.workloads import SGD, Recipe, Scale, Workload


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def complain():
    raise ValueError("the pigeons are asleep")


def fill_memory():
    raise torch.OutOfMemoryError("tried to allocate 20.00 GiB")


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


def die():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    terminate()


FAULTS = {
    "die": die,
    "crash": crash,
    "complain": complain,
    "memory": fill_memory,
    "terminate": terminate,
}


class Net(nn.Sequential):
    def __init__(self, hidden, fault):
        super().__init__(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
        self.hidden = hidden
        self.fault = fault

    def forward(self, inputs):
        if self.training:
            if self.fault in FAULTS:
                FAULTS[self.fault]()
            if self.hidden == 13 and "GATE" in os.environ:
                Path(os.environ["GATE"]).write_text("here")
                threading.Event().wait()
        output = super().forward(inputs)
        return output * float("nan") if self.fault == "nan" else output


def model(hidden: int = 8, fault: str = "none") -> nn.Module:
    sys.stdout.write("models may print\n")
    return Net(hidden, fault)


fragile = Workload(
    name="fragile",
    summary="",
    dataset="digits",
    model=model,
    recipe=Recipe(
        optimizer=SGD(learning_rate=0.05, momentum=0.9, nesterov=False),
        batch_size=64,
        epochs=2,
        preprocess=Scale(factor=1 / 16),
    ),
)
