"""The published genetic search on the whole of MNIST, losers stopped early.

    python bench/search_mnist.py [--generations 10] [--population 20] [--seed 0]

`tarmac search mlp-evolve --prune halving` in a fresh process: published is a test accuracy above
98 %. TARMAC_DATA must hold MNIST.
"""

from __future__ import annotations

import argparse
import tempfile

from _harness import TARMAC, run_child, table, write_results


def main() -> None:
    """Search, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generations", type=int, default=10)
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    words = ["search", "mlp-evolve", "--set", "dataset=mnist", "--prune", "halving", "--json"]
    for name, value in vars(given).items():
        words += [f"--{name}", str(value)]
    with tempfile.TemporaryDirectory() as output:
        child = run_child([*TARMAC, *words, "--output", output])
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
        f"Population {given.population}, {given.generations} generations, seed {given.seed}, "
        "judged by 10,000 held-out images; the winner is trained on all 60,000 and scored on the "
        f"test set once.\n\n{table(header, [row])}\n\nThe winner: {network}."
    )
    kept = {"options": vars(given), "seconds": child.seconds, "totals": totals, "best": best}
    write_results("search-mnist", kept, text, gpu=True)


if __name__ == "__main__":
    main()
