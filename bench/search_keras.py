"""The published genetic search by Keras, one network at a time, against `tarmac search`.

    python bench/search_keras.py --keras PYTHON [--seeds 3] [--generations 10] [--population 20]
        [--train-size 10000] [--epochs 10] [--write]

PYTHON has requirements-keras.txt. Both search the same 672 networks on the first images of MNIST
with at most so many epochs, with the published population, generations and patience, in fresh
processes, alternating, each seed once. Keras's scores are of the test set that it also chose and
stopped by, as published; Tarmac's is the test set's, which it touched once, for the winner.
TARMAC_DATA must hold MNIST. A cut is a cut for both.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path

from _harness import TARMAC, Child, Spread, run_child, table, write_results

PEER = str(Path(__file__).parent / "peers" / "keras_evolve.py")


def run_keras(python: str, seed: int, given: argparse.Namespace) -> Child:
    """Search by the published procedure."""
    numbers = (seed, given.generations, given.population, given.train_size, given.epochs)
    child = run_child([python, PEER, *map(str, numbers)])
    equal = {"test_accuracy_of_equal_images": child.result["test_accuracy"]}
    return dataclasses.replace(child, result=child.result | equal)


def run_tarmac(seed: int, prune: str, given: argparse.Namespace) -> Child:
    """Search by the command line; then, untimed, train its winner on Keras's images alone."""
    command = [*TARMAC, "search", "mlp-evolve", "--set", "dataset=mnist", "--json"]
    options = {
        "--generations": given.generations,
        "--population": given.population,
        "--seed": seed,
        "--train-size": given.train_size,
        # The first images, as Keras is given them.
        "--validation-split": "last",
        "--epochs": given.epochs,
        "--prune": prune,
    }
    with tempfile.TemporaryDirectory() as output:
        words = (str(word) for pair in options.items() for word in pair)
        child = run_child([*command, *words, "--output", output])
        best = child.result["best"]
        options = {"--train-size": given.train_size, "--validation-split": "last"}
        options |= {"--epochs": best["epochs"], "--seed": seed}
        settings = dict(best["settings"])
        options["--batch-size"] = settings.pop("batch_size")
        words = [str(word) for pair in options.items() for word in pair]
        words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        trained = run_child([*TARMAC, "train", "mlp", "--json", "--output", output, *words])
    return dataclasses.replace(
        child,
        result={
            "test_accuracy": best["test_accuracy"],
            "test_accuracy_of_equal_images": trained.result["metrics"]["test_accuracy"],
            "best": best["settings"],
            "totals": child.result["totals"],
        },
    )


def main() -> None:
    """Run the rounds, print the results, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keras", required=True, help="the Python that has requirements-keras.txt")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--generations", type=int, default=10)
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--train-size", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--only", choices=("keras", "tarmac"), help="leave the other out")
    parser.add_argument("--write", action="store_true", help="write results/search-keras-*")
    given = parser.parse_args()
    ways = {
        "Tarmac": lambda seed: run_tarmac(seed, "none", given),
        "Tarmac, --prune halving": lambda seed: run_tarmac(seed, "halving", given),
        "Keras 3 on TensorFlow": lambda seed: run_keras(given.keras, seed, given),
    }
    if given.only:
        ways = {name: way for name, way in ways.items() if name.lower().startswith(given.only)}
    found: dict[str, list[Child]] = {name: [] for name in ways}
    for seed in range(given.seeds):
        for name, way in ways.items():
            found[name].append(way(seed))
            print(f"seed {seed}, {name}: {found[name][-1].seconds:.0f} s", file=sys.stderr)
    rows = []
    for name, children in found.items():
        accuracies = [child.result["test_accuracy"] for child in children]
        equal = [
            c.result.get("test_accuracy_of_equal_images", a)
            for c, a in zip(children, accuracies, strict=True)
        ]
        wall = Spread.of([child.seconds for child in children])
        rows.append([name, wall.show(0), Spread.of(accuracies).show(4), Spread.of(equal).show(4)])
    header = ["", "wall time, s", "best test accuracy", "of training on equal images"]
    text = (
        f"Population {given.population}, {given.generations} generations, {given.train_size:,} "
        f"images of MNIST to train on, at most {given.epochs} epochs, patience 5, {given.seeds} "
        "seeds, alternating. Medians, with the lowest and highest in brackets. Keras chooses by "
        "the test set that it reports. Tarmac chooses by a fifth as many images from the end of "
        "the training set, trains the best three from two more seeds, and the winner on as many "
        "images as trained and judged, and then scores the test set once; the last column is its "
        "winner trained on the same images as Keras's.\n\n"
        f"{table(header, rows)}"
    )
    if given.write:
        data = {
            name: [{"seconds": c.seconds, **c.result} for c in children]
            for name, children in found.items()
        }
        write_results("search-keras", {"options": vars(given), "found": data}, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
