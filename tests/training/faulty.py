"""A workload whose ranks fail in mid-epoch, each in the way that the environment says.

``FAULT`` is ``rank:step:what``, with ``what`` one of `FAULTS`, and ``all`` for every rank; a fault
happens once in the life of the directory ``FAULT_ONCE``, or every time where that is not set. Steps
count from the start of the process; step 0 is the loading of the data.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil
import torch
from torch import nn

from tarmac import data
from tarmac.workloads import SGD, Recipe, Scale, Workload


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def hang() -> None:
    while True:
        signal.pause()


def fail() -> None:
    raise ValueError("the pigeons are\nasleep")


def terminate_launcher() -> None:
    os.kill(os.getppid(), signal.SIGTERM)


def kill_agent() -> None:
    """Kill what has started the training on this node."""
    launcher = psutil.Process().parent()
    launcher.parent().kill()
    # The engine ends what is left; a step more would be a checkpoint that is not to be.
    hang()


def terminate_group() -> None:
    os.killpg(os.getpgid(os.getppid()), signal.SIGTERM)


def fail_node() -> None:
    """Wait until the test lets this node fail."""
    hang()


def requeue() -> None:
    """Have Slurm begin the job again, and go on when it says so: with a step and a checkpoint."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True)
    signal.sigwait({signal.SIGTERM})
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    signal.raise_signal(signal.SIGTERM)


def interrupt_everyone() -> None:
    os.killpg(os.getpgid(os.getppid()), signal.SIGINT)


FAULTS = {
    found.__name__: found
    for found in (
        kill,
        stop,
        hang,
        fail,
        terminate_launcher,
        terminate_group,
        kill_agent,
        fail_node,
        requeue,
        interrupt_everyone,
    )
}


def fail_at(step: int) -> None:
    """Do what is due at a step."""
    rank, due, what = os.environ.get("FAULT", "none:0:fail").split(":")
    is_due = rank in ("all", os.environ.get("RANK", "0")) and step == int(due)
    if is_due and is_first_time():
        FAULTS[what]()


def is_first_time() -> bool:
    if "FAULT_ONCE" not in os.environ:
        return True
    try:
        Path(os.environ["FAULT_ONCE"]).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def digits() -> data.Dataset:
    fail_at(0)
    return data.load("digits")


class Faulty:
    """Scales, and fails when it is time."""

    def __init__(self) -> None:
        self.calls = 0
        self.scale = Scale(factor=1 / 16)

    def __call__(self, inputs: torch.Tensor, *, training: bool, dtype: torch.dtype) -> torch.Tensor:
        if training:
            self.calls += 1
            fail_at(self.calls)
        return self.scale(inputs, training=training, dtype=dtype)


def model() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10)
    )


faulty = Workload(
    name="faulty",
    summary="",
    dataset=digits,
    model=model,
    recipe=Recipe(
        optimizer=SGD(learning_rate=0.05, momentum=0.9, nesterov=False),
        batch_size=64,
        epochs=3,
        preprocess=Faulty(),
    ),
)
