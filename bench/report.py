"""Pages of trainings: time from start to file, and size, by epochs.

    python bench/report.py [--rounds 5]

The runs are made by hand, as a training of that many epochs would leave them: a line for each
epoch, 2,000 samples of 8 GPUs, mistakes with their pictures. `tarmac report` is a process of its
own, from its start to its end; rendering alone is timed in this one.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import subprocess
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from _harness import TARMAC, Spread, table, write_results

EPOCHS = (10, 1000, 10_000)
GPUS, SAMPLES, MISTAKES = 8, 2000, 24


def make_run(output: Path, epochs: int) -> Path:
    """Write a run's directory."""
    from tarmac.runs import Run, Session

    run = Run.create(
        output,
        name=f"epochs-{epochs}",
        workload="mnist-mlp",
        command=["tarmac", "train", "mnist-mlp"],
        configuration={"workload": "mnist-mlp", "epochs": epochs},
        dataset={"name": "mnist", "sample_shape": [28, 28]},
        device={"type": "cuda", "index": 0, "name": "NVIDIA H100 80GB HBM3"},
        versions={"python": "3.12"},
        seed=0,
        git=None,
        expectation=None,
    )
    began = run.record.created_at
    run.update(
        status="completed",
        elapsed_s=epochs * 10.0,
        ended_at=began + timedelta(seconds=epochs * 10),
        sessions=[Session(started_at=began, pid=1).model_dump()],
        metrics={"test_accuracy": 0.98},
    )
    with (run.path / "metrics.jsonl").open("w") as file:
        for epoch in range(1, epochs + 1):
            row = {
                "epoch": epoch,
                "loss": math.exp(-epoch / epochs) + 0.01 * math.sin(epoch),
                "accuracy": 1 - 0.9 * math.exp(-3 * epoch / epochs),
                "val_loss": math.exp(-epoch / epochs) + 0.02 * math.sin(epoch),
                "val_accuracy": 0.99 - 0.9 * math.exp(-3 * epoch / epochs),
                "learning_rate": 0.1 * (1 - epoch / epochs),
                "samples_per_s": 1e6 + 1e4 * math.sin(epoch),
                "seconds": 9.5,
                "data_wait_s": 0.4 + 0.1 * math.sin(epoch),
            }
            file.write(json.dumps(row) + "\n")
    write_samples(run.path, epochs * 10.0)
    write_predictions(run.path)
    return run.path


def write_samples(run: Path, seconds: float) -> None:
    """Write samples of all GPUs."""
    gpus = [{"uuid": f"GPU-{n}", "index": n, "name": "NVIDIA H100 80GB HBM3"} for n in range(GPUS)]
    with (run / "samples.jsonl").open("w") as file:
        session = {"kind": "session", "at_s": 0.0, "host": "node", "cpu_count": 64.0, "gpus": gpus}
        file.write(json.dumps(session) + "\n")
        for place in range(SAMPLES):
            rows = {
                f"GPU-{n}": {
                    "utilization_ratio": 0.9 + 0.1 * math.sin(place / 9 + n),
                    "memory_used_bytes": 40 * 2**30,
                    "power_watts": 600 + 50 * math.sin(place / 7 + n),
                }
                for n in range(GPUS)
            }
            line = {"kind": "sample", "at_s": place * seconds / SAMPLES, "cpu_ratio": 0.5}
            file.write(json.dumps(line | {"gpus": rows}) + "\n")


def write_predictions(run: Path) -> None:
    """Write what a model of ten classes took for what."""
    pixels = base64.b64encode(bytes(place % 256 for place in range(784))).decode()
    mistake = {"index": 1, "target": 1, "predicted": 2, "confidence": 0.9, "pixels": pixels}
    content = {
        "schema_version": 1,
        "num_samples": 10_000,
        "num_test": 10_000,
        "confusion": [[980 if r == c else 2 for c in range(10)] for r in range(10)],
        "sample_shape": [28, 28],
        "mistakes": [mistake] * MISTAKES,
    }
    (run / "predictions.json").write_text(json.dumps(content))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds

    from tarmac.pages import report

    rows, results = [], {}
    with tempfile.TemporaryDirectory() as directory:
        for epochs in EPOCHS:
            run = make_run(Path(directory), epochs)
            page = run / "report.html"
            whole, rendering = [], []
            for _ in range(rounds):
                started = time.perf_counter()
                command = [*TARMAC, "report", str(run), "--html", str(page)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                whole.append(time.perf_counter() - started)
                started = time.perf_counter()
                report([run])
                rendering.append(time.perf_counter() - started)
            size = page.stat().st_size
            spreads = Spread.of(whole), Spread.of(rendering)
            rows.append(
                [f"{epochs:,}", *(spread.show() for spread in spreads), f"{size / 1e3:.0f}"]
            )
            results[str(epochs)] = {
                "whole_s": whole,
                "rendering_s": rendering,
                "page_bytes": size,
            }
    columns = ["epochs", "tarmac report, s", "rendering alone, s", "page, kB"]
    text = f"{rounds} rounds; median (lowest to highest).\n\n{table(columns, rows)}"
    write_results("report", {"rounds": rounds, "epochs": results}, text)


if __name__ == "__main__":
    main()
