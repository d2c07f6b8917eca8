"""What reference workloads reach in fp16 with a scaled loss, beside fp32, on a CPU.

python bench/fp16_accuracy.py [--seeds 3] [--epochs N] [--train-size N] [WORKLOAD ...]

Each seed is trained in both precisions, one after the other; products of fp16 are computed as a
GPU's matrix units do (`emulated_fp16.py`). ``--epochs`` and ``--train-size`` shorten the trainings,
which are then compared with each other alone. Workloads of MNIST and CIFAR-10 need their files: set
TARMAC_DATA. The results are written after each workload, so that a long run loses none. ``--name``
names their file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from _harness import TARMAC, Spread, run_child, table, write_results

# Which need no download.
_EMBEDDED = ("digits-mlp", "diabetes-mlp", "digits-autoencoder")

_PRECISIONS = ("fp32", "fp16")
_EMULATED = (sys.executable, str(Path(__file__).with_name("emulated_fp16.py")))


def main() -> None:
    """Train, and write what each workload reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=_EMBEDDED, metavar="WORKLOAD")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="default: the recipe's")
    parser.add_argument("--train-size", type=int, help="samples to train on; default: all")
    parser.add_argument("--data", default="original", help="which files: in the results")
    parser.add_argument("--name", default="fp16-accuracy", help="of the results' file")
    options = parser.parse_args()
    limits = {"--epochs": options.epochs, "--train-size": options.train_size}
    shorter = [f"{name}={limit}" for name, limit in limits.items() if limit is not None]
    reached: dict[str, dict[str, list[float]]] = {}
    rows: list[list[str]] = []
    for workload in options.workloads:
        metric = expected = ""
        reached[workload] = {precision: [] for precision in _PRECISIONS}
        met = dict.fromkeys(_PRECISIONS, 0)
        for seed in range(options.seeds):
            for precision in _PRECISIONS:
                result = _train(workload, precision, seed, shorter)
                bounds = result["expectation"]
                metric = bounds["metric"]
                most, least = bounds["at_most"], bounds["at_least"]
                expected = f"at most {most:g}" if least is None else f"at least {least:g}"
                reached[workload][precision].append(result["metrics"][metric])
                met[precision] += bounds["met"]
        for precision, values in reached[workload].items():
            as_expected = "-" if shorter else f"{met[precision]} of {options.seeds}"
            rows.append(
                [workload, precision, metric, Spread.of(values).show(4), expected, as_expected]
            )
        _write(options, reached, rows)


def _write(
    options: argparse.Namespace, reached: dict[str, dict[str, list[float]]], rows: list[list[str]]
) -> None:
    header = ["workload", "precision", "metric", "median (range)", "expected", "as expected"]
    epochs = options.epochs or "the recipe's"
    data = options.data
    if options.train_size is not None:
        data += f", {options.train_size:,} samples to train on"
    text = f"Data: {data}. Seeds: {options.seeds}. Epochs: {epochs}.\n\n{table(header, rows)}"
    write_results(options.name, {"options": vars(options), "reached": reached}, text)


def _train(workload: str, precision: str, seed: int, shorter: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as output:
        words = ["train", workload, "--json", "--device", "cpu", "--output", output]
        words += ["--precision", precision, "--seed", str(seed), *shorter]
        program = _EMULATED if precision == "fp16" else TARMAC
        result = run_child([*program, *words]).result
    values = {k: v for k, v in result["metrics"].items() if k.startswith("test_")}
    print(f"{workload} {precision} seed {seed}: {values}", file=sys.stderr, flush=True)
    return result


if __name__ == "__main__":
    main()
