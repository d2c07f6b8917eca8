"""Trials per minute of MLPs stacked and alone, by width and layers, alternating in one run.

    python bench/population.py [--widths 64,256,1024] [--layers 1,2] [--networks 8] [--rounds 3]
        [--steps 20] [--epochs 2] [--write]

Every measurement is a fresh process that trains networks of one shape, with all optimizers and
activations, on MNIST, with one thread, and scores 1,000 samples after every epoch; starting the
process is left out.
``stacked`` and ``alone`` are `tarmac.studies.evaluation.stacked`, ``train`` is `tarmac.train` with
its run directories. TARMAC_DATA must hold MNIST.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

from _harness import Spread, run_child, table, write_results

PROGRAM = str(Path(__file__).parent / "peers" / "population_trials.py")
HOWS = ("stacked", "alone", "train")


def main() -> None:
    """Run the rounds, print the results, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", default="64,128,256,512,768,1024")
    parser.add_argument("--layers", default="1,2,4")
    parser.add_argument("--networks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write results/population-*")
    given = parser.parse_args()
    widths, layers = (map(int, text.split(",")) for text in (given.widths, given.layers))
    shapes = [*itertools.product(widths, layers)]
    step_us: dict[tuple[str, int, int], list[float]] = {}
    for number in range(given.rounds):
        for (width, depth), how in itertools.product(shapes, HOWS):
            amounts = (width, depth, given.networks, given.steps, given.epochs)
            child = run_child([sys.executable, PROGRAM, how, *map(str, amounts)])
            step_us.setdefault((how, width, depth), []).append(child.result["step_us"])
        print(f"round {number} is done", file=sys.stderr, flush=True)
    # A trial of the cut search: 10,000 samples for 10 epochs.
    trial_steps = 10 * 79
    rows = []
    for width, depth in shapes:
        spreads = {how: Spread.of(step_us[how, width, depth]) for how in HOWS}
        stacked = spreads["stacked"].median
        rows.append(
            [
                str(width),
                str(depth),
                *(spreads[how].show(0) for how in HOWS),
                *(f"{60e6 / (spreads[how].median * trial_steps):.1f}" for how in HOWS),
                *(f"{spreads[how].median / stacked:.2f}" for how in HOWS[1:]),
            ]
        )
    header = ["width", "layers", *(f"{how}, us" for how in HOWS)]
    header += [*(f"{how}, trials/min" for how in HOWS), "alone / stacked", "train / stacked"]
    text = (
        f"{given.networks} networks, {given.epochs} epochs of {given.steps} steps of 128, "
        f"{given.rounds} rounds, alternating, one thread: microseconds a step and network, "
        "medians with the lowest and highest in brackets; trials per minute of 10 epochs of "
        "10,000 samples.\n\n"
        f"{table(header, rows)}"
    )
    if given.write:
        found = [
            {"how": how, "width": width, "layers": depth, "step_us": values}
            for (how, width, depth), values in step_us.items()
        ]
        write_results("population", {"options": vars(given), "found": found}, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
