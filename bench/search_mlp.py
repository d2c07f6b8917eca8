"""The published genetic search on MNIST or CIFAR-10, losers stopped early.

    python bench/search_mlp.py [--dataset cifar10] [--data "JPEG copy"] [--train-size 10000]

`tarmac search mlp-evolve --prune halving` in a fresh process. Published are test accuracies above
98 % on MNIST and 56 % on CIFAR-10. TARMAC_DATA must hold the data set; name by --data a copy that
is not the original. With --train-size the search sees a part of the images, and its winner is then
trained on all of them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from typing import Any

from _harness import TARMAC, Child, run_child, table, write_results


def main() -> None:
    """Search, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=("mnist", "cifar10"), default="mnist")
    parser.add_argument("--data", default="original", help="which files: in the results")
    parser.add_argument("--generations", type=int, default=10)
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train-size", type=int, help="images of the search; default: all")
    options = parser.parse_args()
    words = ["search", "mlp-evolve", "--set", f"dataset={options.dataset}", "--prune", "halving"]
    for name in ("generations", "population", "seed"):
        words += [f"--{name}", str(getattr(options, name))]
    if options.train_size is not None:
        words += ["--train-size", str(options.train_size)]
    with tempfile.TemporaryDirectory() as output:
        child = run_child([*TARMAC, *words, "--json", "--output", output])
    totals, best = child.result["totals"], child.result["best"]
    network = ", ".join(f"{name} {value}" for name, value in best["settings"].items())
    kept = {"options": vars(options), "seconds": child.seconds, "totals": totals, "best": best}
    accuracy, sizes = best["test_accuracy"], "all training images"
    if options.train_size is not None:
        trained = _train(options, best)
        accuracy = trained.result["metrics"]["test_accuracy"]
        sizes = f"{options.train_size:,} training images"
        kept["trained"] = {"seconds": trained.seconds, "metrics": trained.result["metrics"]}
    row = [
        f"{child.seconds / 60:.1f} min",
        str(totals["trained"]),
        str(totals["pruned"]),
        f"{best['values']['val_accuracy']:.4f}",
        f"{accuracy:.4f}",
    ]
    header = ["wall time", "networks", "stopped early", "held-out accuracy", "test accuracy"]
    text = (
        f"{options.dataset} ({options.data}), population {options.population}, "
        f"{options.generations} generations, seed {options.seed}, on {sizes}, judged by held-out "
        "images; the winner is trained on all training images and scored on the test set.\n\n"
        f"{table(header, [row])}\n\nThe winner: {network}."
    )
    write_results(f"search-{options.dataset}", kept, text, gpu=True)


def _train(options: argparse.Namespace, best: Mapping[str, Any]) -> Child:
    """Train a search's winner on all images, for as many epochs as the search chose."""
    settings = dict(best["settings"])
    words = ["train", "mlp", "--json", "--seed", str(options.seed)]
    words += ["--epochs", str(best["epochs"]), "--batch-size", str(settings.pop("batch_size"))]
    words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as output:
        return run_child([*TARMAC, *words, "--output", output])


if __name__ == "__main__":
    main()
