"""Calls Tarmac as users do, and programs beside it, within a stage's time."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _harness import TARMAC
from gpu_stages._report import Skip

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_stages._report import Report

ROOT = Path(__file__).parents[2]
DATA_VARIABLE = "TARMAC_DATA"
PEERS = ROOT / "bench" / "peers"


def need_mnist() -> None:
    """Skip the stage where MNIST is not there.

    Raises:
        Skip: It is not.
    """
    root = os.environ.get(DATA_VARIABLE)
    if root is None or not list(Path(root).glob("mnist/train-images*")):
        raise Skip(f"MNIST is not under {DATA_VARIABLE}")


def run_json(
    report: Report,
    command: Sequence[str],
    *,
    limit_s: float | None = None,
    codes: tuple[int, ...] = (0,),
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a program that prints a JSON object last; return it with its time, ``process_s``.

    Args:
        report: Whose time is the most that it may take.
        command: The program.
        limit_s: The most that it may take; by default all that is left.
        codes: The exit codes that it may end with.
        environment: Variables beside those of this process.

    Raises:
        RuntimeError: It ended with another code, or took too long; its words are in the message.
    """
    limit = min(report.seconds_left - 2, limit_s or float("inf"))
    started = time.perf_counter()
    try:
        done = subprocess.run(
            [*command],
            capture_output=True,
            text=True,
            timeout=max(limit, 1),
            check=False,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stderr or b"").decode(errors="replace")
        raise RuntimeError(f"over {limit:.0f} s: {' '.join(command)}\n{said[-4000:]}") from None
    seconds = time.perf_counter() - started
    words = f"{done.stdout[-2000:]}\n{done.stderr[-5000:]}"
    if done.returncode not in codes:
        raise RuntimeError(f"exit code {done.returncode}: {' '.join(command)}\n{words}")
    # Libraries may have printed before it.
    found = re.search(r"^\{", done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"no JSON from {' '.join(command)}\n{words}")
    answer = json.JSONDecoder().raw_decode(done.stdout[found.start() :])[0]
    return answer | {"process_s": round(seconds, 3), "exit_code": done.returncode}


def peer(report: Report, name: str, *words: object, limit_s: float | None = None) -> dict[str, Any]:
    """Run a program of `bench/peers`."""
    command = [sys.executable, str(PEERS / name), *map(str, words)]
    return run_json(report, command, limit_s=limit_s)


def can_fuse() -> bool:
    """Whether this Tarmac's trainings have a choice of fused kernels."""
    from tarmac.training.planning.options import Options

    return "fused" in {field.name for field in dataclasses.fields(Options)}


def train(
    report: Report, *words: object, output: Path | None = None, **options: Any
) -> dict[str, Any]:
    """Train by the command line; return its answer with the epochs' seconds and peak memory.

    Args:
        report: The stage's.
        *words: The command line's, after ``tarmac train``.
        output: Where its run goes; by default among the stage's.
        **options: As for `run_json`.
    """
    output = output or report.scratch / "runs"
    command = [*TARMAC, "--debug", "train", *map(str, words), "--json", "--output", str(output)]
    answer = run_json(report, command, **options)
    run = Path(answer["path"])
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    record = json.loads((run / "run.json").read_text())
    kept = {name: answer[name] for name in ("metrics", "expectation", "process_s", "exit_code")}
    return kept | {
        "epoch_s": [row["seconds"] for row in rows],
        "memory_mib": round(max(row["memory_bytes"] for row in rows) / 2**20),
        "precision": record["configuration"]["precision"],
        "fused": record["configuration"].get("fused"),
        "device": record["device"]["type"],
    }
