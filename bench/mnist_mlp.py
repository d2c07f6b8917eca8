"""mnist-mlp against Keras, a plain PyTorch loop and Lightning, in one run, alternating.

    python bench/mnist_mlp.py --keras PYTHON --lightning PYTHON [--rounds 5] [--slow-rounds 1]

Each competitor runs in a process of its own, one after another, round after round, each round with
its own seed; those that load through a DataLoader are slow and take part in the first rounds only.
Every one trains the same network by the same recipe on all 60,000 samples, scores
nothing on the way and the test set once at the end; Tarmac runs as a user starts it, with its
checkpoint every epoch, in the precision that it chooses and in fp32. All compute on the CPU;
`gpu.py` compares GPUs. TARMAC_DATA must hold MNIST.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _harness import TARMAC, Child, Spread, run_child, table, write_results

PEERS = Path(__file__).parent / "peers"

# Multiply-adds of one epoch's matrix products: forward, and backward with respect to weights and,
# for all layers but the first, to inputs.
_LAYERS = ((784, 512), (512, 512), (512, 10))


def run_tarmac(epochs: int, seed: int, *options: str) -> Child:
    """Train by the command line, and take the epochs' times from the run."""
    with tempfile.TemporaryDirectory() as output:
        command = [*TARMAC, "train", "mnist-mlp", "--json", "--epochs", str(epochs), *options]
        child = run_child([*command, "--seed", str(seed), "--output", output, "--devices", "cpu"])
        run = Path(child.result["path"])
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        versions = json.loads((run / "run.json").read_text())["versions"]
        result = {
            "epoch_s": [row["seconds"] for row in rows],
            "test_accuracy": child.result["metrics"]["test_accuracy"],
            "versions": {name: versions[name] for name in ("tarmac", "torch")},
        }
    return Child(child.seconds, child.peak_rss_bytes, result)


def measure_floor() -> dict[str, float]:
    """Time the matrix products of a step alone, in fp32 and bf16, and scale them to an epoch."""
    import torch

    floors = {}
    for dtype in (torch.float32, torch.bfloat16):
        step_s = 0.0
        for index, (fan_in, fan_out) in enumerate(_LAYERS):
            x = torch.randn(128, fan_in).to(dtype)
            w = torch.randn(fan_out, fan_in).to(dtype)
            g = torch.randn(128, fan_out).to(dtype)
            step_s += _median_s(lambda x=x, w=w: x @ w.t())
            step_s += _median_s(lambda x=x, g=g: g.t() @ x)
            if index:
                step_s += _median_s(lambda w=w, g=g: g @ w)
        floors[str(dtype).removeprefix("torch.")] = step_s * 469
    return floors


def _median_s(function: Any) -> float:
    for _ in range(50):
        function()
    times = []
    for _ in range(300):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure_help() -> Spread:
    """Time ``tarmac --help``."""
    times = []
    for _ in range(15):
        start = time.perf_counter()
        subprocess.run([*TARMAC, "--help"], capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    return Spread.of(times)


def main() -> None:
    """Run the rounds and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keras", help="the Python that has requirements-keras.txt")
    parser.add_argument("--lightning", help="the Python that has requirements-lightning.txt")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slow-rounds", type=int, default=1, help="of those with a DataLoader")
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args()
    commands = {"PyTorch loop, fp32": [sys.executable, str(PEERS / "torch_plain.py")]}
    if given.keras:
        commands["Keras on TensorFlow, fp32"] = [given.keras, str(PEERS / "keras_tf.py")]
    slow = {"PyTorch loop with DataLoader, fp32": commands["PyTorch loop, fp32"]}
    extra = {"PyTorch loop with DataLoader, fp32": ["loader"]}
    if given.lightning:
        slow["Lightning, fp32"] = [given.lightning, str(PEERS / "lightning_fit.py")]
        extra["Lightning, fp32"] = ["32-true"]
    tarmac = {"Tarmac": (), "Tarmac, fp32": ("--precision", "fp32")}
    found: dict[str, list[Child]] = {name: [] for name in (*tarmac, *commands, *slow)}
    for seed in range(given.rounds):
        for name, options in tarmac.items():
            found[name].append(run_tarmac(given.epochs, seed, *options))
        for name, command in (commands | (slow if seed < given.slow_rounds else {})).items():
            numbers = [str(given.epochs), str(seed)]
            found[name].append(run_child([*command, *numbers, *extra.get(name, [])]))
        taken = ", ".join(f"{name} {cs[-1].seconds:.1f} s" for name, cs in found.items() if cs)
        print(f"round {seed}: {taken}", file=sys.stderr, flush=True)
    found = {name: children for name, children in found.items() if children}
    floors, helped = measure_floor(), measure_help()

    epoch = {
        name: Spread.of([s for c in children for s in c.result["epoch_s"]])
        for name, children in found.items()
    }
    wall = {name: Spread.of([c.seconds for c in children]) for name, children in found.items()}
    rows = []
    for name, children in found.items():
        accuracy = [child.result["test_accuracy"] for child in children]
        spread = statistics.stdev(accuracy) if len(accuracy) > 1 else 0.0
        versions = children[0].result["versions"]
        rows.append(
            [
                f"{name} (n = {len(children)})",
                epoch[name].show(),
                f"{epoch[name].median / epoch['Tarmac'].median:.2f}",
                wall[name].show(1),
                f"{wall[name].median / wall['Tarmac'].median:.2f}",
                f"{100 * statistics.mean(accuracy):.2f} ± {100 * spread:.2f}",
                f"{max(c.peak_rss_bytes for c in children) / 2**20:.0f}",
                ", ".join(f"{key} {value}" for key, value in versions.items()),
            ]
        )
    header = ["", "s/epoch", "x", "process s", "x", "accuracy %", "peak MiB", "versions"]
    text = (
        f"mnist-mlp, {given.epochs} epochs, {given.rounds} rounds, alternating; medians, with the "
        "lowest and highest in brackets; accuracy is mean ± standard deviation over the rounds.\n\n"
        f"{table(header, rows)}\n\n"
        "The matrix products of an epoch alone would take "
        + " and ".join(f"{seconds:.2f} s in {name}" for name, seconds in floors.items())
        + f".\n\n`tarmac --help` takes {helped.show(3)} s (n = 15)."
    )
    data = {
        "epochs": given.epochs,
        "rounds": {
            name: [
                {"process_s": c.seconds, "peak_rss_bytes": c.peak_rss_bytes} | c.result for c in cs
            ]
            for name, cs in found.items()
        },
        "floor_s_per_epoch": floors,
        "help_s": helped.values,
    }
    write_results("mnist-mlp", data, text)


if __name__ == "__main__":
    main()
