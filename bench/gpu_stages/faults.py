"""Endings that nobody wants: killed and resumed, stopped by a signal, out of memory, leaks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from _harness import TARMAC
from gpu_stages._tarmac import peer, train

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_stages._report import Report

# On data that come with Tarmac; enough epochs that a kill hits one of them.
_EPOCHS = 300
_TRAINING = ("digits-mlp", "--epochs", str(_EPOCHS), "--deterministic", "--no-check")


def run(report: Report) -> None:
    """Cause each, and look at what is left."""
    with report.part("kill -9 and resume"):
        whole = report.scratch / "whole"
        report.keep("whole", train(report, *_TRAINING, output=whole)["metrics"])
        killed = report.scratch / "killed"
        epochs = _interrupt(report, killed, signal.SIGKILL)
        _resume(report, killed)
        report.keep("killed", {"after_epochs": epochs, "equal_bits": _equal(whole, killed)})
        assert _equal(whole, killed), "a resumed training has other weights than a whole one"
    with report.part("SIGTERM and resume"):
        stopped = report.scratch / "stopped"
        epochs = _interrupt(report, stopped, signal.SIGTERM)
        status = json.loads(_only_run(stopped).joinpath("run.json").read_text())["status"]
        assert status == "interrupted", status
        _resume(report, stopped)
        report.keep("stopped", {"after_epochs": epochs, "equal_bits": _equal(whole, stopped)})
        assert _equal(whole, stopped), "a resumed training has other weights than a whole one"
    for name in ("memory", "prefetch", "out-of-memory"):
        with report.part(name):
            report.keep(name, peer(report, "gpu_faults.py", name, limit_s=90))


def _only_run(output: Path) -> Path:
    (found,) = (path.parent for path in output.glob("*/run.json"))
    return found


def _interrupt(report: Report, output: Path, number: int) -> int:
    """Start a training and send it a signal after an epoch; return how many epochs it had done."""
    command = [*TARMAC, "train", *_TRAINING, "--json", "--output", str(output)]
    with (report.scratch / "interrupted.txt").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        while process.poll() is None and not list(output.glob("*/checkpoints/*.safetensors")):
            if report.seconds_left < 10:
                process.kill()
                raise RuntimeError("no checkpoint came")
            time.sleep(0.002)
        process.send_signal(number)
        process.wait(timeout=30)
    epochs = len((_only_run(output) / "metrics.jsonl").read_text().splitlines())
    if epochs >= _EPOCHS:
        raise RuntimeError("the training was over before the signal came")
    return epochs


def _resume(report: Report, output: Path) -> None:
    command = [*TARMAC, "--debug", "train", "--resume", str(_only_run(output)), "--json"]
    environment = {**os.environ, "TARMAC_RUNS": str(output)}
    done = subprocess.run(
        [*command, "--no-check"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=max(report.seconds_left - 5, 1),
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the resumed training exited with {done.returncode}:\n{done.stderr}")


def _equal(one: Path, other: Path) -> bool:
    return all(
        (_only_run(one) / name).read_bytes() == (_only_run(other) / name).read_bytes()
        for name in ("model.safetensors",)
    )
