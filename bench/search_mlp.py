"""The published genetic search on the whole of MNIST or CIFAR-10, losers stopped early.

    python bench/search_mlp.py [--dataset cifar10] [--data "JPEG copy"] [--generations 10]

`tarmac search mlp-evolve --prune halving` in a fresh process. Published are test accuracies above
98 % on MNIST and 56 % on CIFAR-10. TARMAC_DATA must hold the data set; name by --data a copy that
is not the original.
"""

from __future__ import annotations

import argparse
import tempfile

from _harness import TARMAC, run_child, table, write_results


def main() -> None:
    """Search, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=("mnist", "cifar10"), default="mnist")
    parser.add_argument("--data", default="original", help="which files: in the results")
    parser.add_argument("--generations", type=int, default=10)
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    words = ["search", "mlp-evolve", "--set", f"dataset={options.dataset}", "--prune", "halving"]
    for name in ("generations", "population", "seed"):
        words += [f"--{name}", str(getattr(options, name))]
    with tempfile.TemporaryDirectory() as output:
        child = run_child([*TARMAC, *words, "--json", "--output", output])
    totals, best = child.result["totals"], child.result["best"]
    network = ", ".join(f"{name} {value}" for name, value in best["settings"].items())
    row = [
        f"{child.seconds / 60:.1f} min",
        str(totals["trained"]),
        str(totals["pruned"]),
        f"{best['values']['val_accuracy']:.4f}",
        f"{best['test_accuracy']:.4f}",
    ]
    header = ["wall time", "networks", "stopped early", "held-out accuracy", "test accuracy"]
    text = (
        f"{options.dataset} ({options.data}), population {options.population}, "
        f"{options.generations} generations, seed {options.seed}, judged by held-out images, a "
        "sixth; the winner is trained on all training images and scored on the test set once.\n\n"
        f"{table(header, [row])}\n\nThe winner: {network}."
    )
    kept = {"options": vars(options), "seconds": child.seconds, "totals": totals, "best": best}
    write_results(f"search-{options.dataset}", kept, text, gpu=True)


if __name__ == "__main__":
    main()
