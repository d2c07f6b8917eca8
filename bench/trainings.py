"""A small transformer, ResNet-18 and a table, against a plain loop, Lightning, Hugging Face, Keras.

    python bench/trainings.py --peers PYTHON [--rounds 3] [--tasks gpt,table]
    python bench/trainings.py --only Tarmac --only "PyTorch loop" --rounds 8 --name trainings-seeds

Each competitor trains the same network from the same kind of initial weights by the same recipe on
the same data (`peers/_training_tasks.py`), in a process of its own, one after another, round after
round, each round with its own seed. All compute on the CPU in fp32; Tarmac also in the precision
that it chooses. The time of a step is that of an epoch over its steps, without the first epoch.
Tarmac runs as a user starts it, with its checkpoints. TARMAC_DATA must hold tinyshakespeare.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from _harness import TARMAC, Child, Spread, run_child, table, write_results

PEERS = Path(__file__).parent / "peers"
sys.path.append(str(PEERS))
WORKLOADS = PEERS / "trainings_tarmac.py"


def run_tarmac(task: str, seed: int, *options: str) -> Child:
    """Train by the command line, and take the epochs' times from the run."""
    with tempfile.TemporaryDirectory() as output:
        command = [*TARMAC, "train", f"{WORKLOADS}:{task}", "--json", *options]
        child = run_child([*command, "--seed", str(seed), "--output", output, "--devices", "cpu"])
        run = Path(child.result["path"])
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        record = json.loads((run / "run.json").read_text())
    return Child(
        child.seconds,
        child.peak_rss_bytes,
        {
            "epoch_s": [row["seconds"] for row in rows],
            "test_loss": child.result["metrics"]["test_loss"],
            "versions": {name: record["versions"][name] for name in ("tarmac", "torch")},
        },
    )


def main() -> None:
    """Run the rounds and write the results."""
    from _training_tasks import TASKS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", help="the Python that has requirements-trainings.txt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--only", action="append", help="a competitor, as its row is called")
    parser.add_argument("--name", default="trainings", help="of the results' files")
    given = parser.parse_args()
    commands = {"PyTorch loop": [sys.executable, str(PEERS / "trainings_plain.py")]}
    if given.peers:
        commands["Lightning"] = [given.peers, str(PEERS / "trainings_lightning.py")]
        commands["Hugging Face Trainer"] = [given.peers, str(PEERS / "trainings_transformers.py")]
        commands["Keras on TensorFlow"] = [given.peers, str(PEERS / "trainings_keras.py")]
    tarmac = {"Tarmac": ("--precision", "fp32"), "Tarmac, its own precision": ()}
    if given.only:
        tarmac = {each: options for each, options in tarmac.items() if each in given.only}
        commands = {each: command for each, command in commands.items() if each in given.only}
    text, figures = "", {}
    for name in given.tasks.split(","):
        task = TASKS[name]
        found: dict[str, list[Child]] = {each: [] for each in (*tarmac, *commands)}
        for seed in range(given.rounds):
            for each, options in tarmac.items():
                found[each].append(run_tarmac(name, seed, *options))
            for each, command in commands.items():
                found[each].append(run_child([*command, name, str(seed)]))
            taken = ", ".join(f"{each} {c[-1].seconds:.1f} s" for each, c in found.items())
            print(f"{name}, round {seed}: {taken}", file=sys.stderr, flush=True)
        steps = -(-len(task.data()[0]) // task.batch_size)
        step = {
            each: Spread.of([1e3 * s / steps for c in cs for s in c.result["epoch_s"][1:]])
            for each, cs in found.items()
        }
        rows = []
        for each, children in found.items():
            losses = [child.result["test_loss"] for child in children]
            spread = statistics.stdev(losses) if len(losses) > 1 else 0.0
            versions = children[0].result["versions"].items()
            rows.append(
                [
                    each,
                    step[each].show(),
                    f"{step[each].median / step['Tarmac'].median:.2f}",
                    f"{statistics.median(c.seconds for c in children):.1f}",
                    f"{statistics.mean(losses):.4f} ± {spread:.4f}",
                    f"{max(c.peak_rss_bytes for c in children) / 2**20:.0f}",
                    ", ".join(f"{key} {value}" for key, value in versions),
                ]
            )
        header = ["", "ms/step", "x", "process s", "test loss", "peak MiB", "versions"]
        text += (
            f"## {name}\n\nBatches of {task.batch_size}, {steps} steps an epoch, {task.epochs} "
            f"epochs, n = {given.rounds}.\n\n{table(header, rows)}\n\n"
        )
        figures[name] = {
            each: {"step_ms": step[each].values, "children": [c.result for c in children]}
            for each, children in found.items()
        }
    head = (
        "Alternating, each in a process of its own; medians, with the lowest and highest in "
        "brackets; the loss is mean ± standard deviation over the seeds. fp32, but for the row "
        "that says otherwise.\n\n"
    )
    write_results(given.name, figures, head + text.rstrip())


if __name__ == "__main__":
    main()
