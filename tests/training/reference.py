"""Short trainings whose bits are recorded in ``reference.json``: code that only moves keeps them.

As a program it makes the record anew, which is right only where the numbers were meant to change:
``python tests/training/reference.py``.

The trainings run in a process of their own where every library is held to the instructions that all
x86-64 processors have, so that those of Intel and of AMD give the same bits. The record is still of
one release of PyTorch, which it names: another may add in another order.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import tarmac
from tarmac.testing.strategies import WORKLOADS
from tarmac.training import Silent
from tarmac.workloads import Workload

RECORD = Path(__file__).with_name("reference.json")

# ATen's own kernels, MKL's, oneDNN's; threads cut sums into parts.
PORTABLE = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

# A last batch that is smaller than the others, held-out samples, and decay on some weights.
# The numbers were recorded when the first samples were trained on, and the last held out.
LAST: dict[str, Any] = {"validation_split": "last", "seed": 3}
DIGITS: dict[str, Any] = {"epochs": 3, "train_size": 500, "validation_size": 100, **LAST}
SQUARES: dict[str, Any] = {"epochs": 3, "train_size": 62, **LAST}
TWO = {"devices": "cpu:2"}

CASES: dict[str, tuple[str | Workload, dict[str, Any]]] = {
    "digits-mlp": ("digits-mlp", DIGITS),
    "digits-mlp without dropout": ("digits-mlp", DIGITS | {"settings": {"dropout": 0.0}}),
    "digits-mlp in bf16": ("digits-mlp", DIGITS | {"precision": "bf16"}),
    "digits-mlp in fp64": ("digits-mlp", DIGITS | {"precision": "fp64"}),
    "digits-mlp accumulated": ("digits-mlp", DIGITS | {"accumulate": 3}),
    "digits-mlp by prefetch": ("digits-mlp", DIGITS | {"feed": "prefetch"}),
    "digits-mlp on two by ddp": ("digits-mlp", DIGITS | TWO),
    "digits-mlp on two by towers": ("digits-mlp", DIGITS | TWO | {"strategy": "towers"}),
    "mlp of nadam": ("mlp", DIGITS | {"settings": {"dataset": "digits", "optimizer": "nadam"}}),
    "convolutions": (WORKLOADS["cnn"], SQUARES),
    "convolutions and norms": (WORKLOADS["norm"], SQUARES),
    "synchronised norms on two by ddp": (
        WORKLOADS["norm"],
        SQUARES | TWO | {"sync_batchnorm": True},
    ),
    "norms on two by towers": (WORKLOADS["norm"], SQUARES | TWO | {"strategy": "towers"}),
}
RESUMED = "digits-mlp stopped and resumed"


class StopInTheSecondEpoch(Silent):
    def stepped(self, epoch, step, score):
        if (epoch, step) == (2, 3):
            os.kill(os.getpid(), signal.SIGTERM)


def describe(run: tarmac.runs.Run) -> dict[str, Any]:
    """Return a run's losses, and the SHA-256 of its weights by name."""
    digest = hashlib.sha256()
    for name, value in sorted(load_file(run.model).items()):
        digest.update(f"{name} {value.dtype} {list(value.shape)} ".encode())
        digest.update(value.numpy().tobytes())
    history = run.history
    return {
        "loss": [row["loss"] for row in history],
        "val_loss": [row["val_loss"] for row in history if "val_loss" in row],
        "test_loss": run.metrics["test_loss"],
        "weights_sha256": digest.hexdigest(),
    }


def train_all(output: Path) -> dict[str, Any]:
    """Do all trainings, in this process and in workers of its own."""
    torch.set_num_threads(1)
    found = {}
    fixed = {"devices": "cpu", "precision": "fp32", "output": output}
    for name, (workload, options) in CASES.items():
        run = tarmac.train(workload, **(fixed | options))
        found[name] = describe(run)
    stopped = tarmac.train("digits-mlp", reporter=StopInTheSecondEpoch(), **(fixed | DIGITS))
    assert stopped.status == "interrupted"
    found[RESUMED] = describe(tarmac.resume(stopped.path))
    return found


def measure() -> dict[str, Any]:
    """Do all trainings in a process that every x86-64 processor computes alike."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), "here"],
        env=os.environ | PORTABLE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def arithmetic() -> dict[str, Any]:
    """Say what the bits depend on."""
    return {
        "machine": platform.machine(),
        "torch": torch.__version__.partition("+")[0],
        "bf16_by_onednn": torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["here"]:
        with tempfile.TemporaryDirectory() as directory:
            sys.stdout.write(json.dumps(train_all(Path(directory))))
    else:
        record = {"arithmetic": arithmetic(), "trainings": measure()}
        RECORD.write_text(json.dumps(record, indent=2) + "\n")
