"""What several devices cost and bring: Tarmac's strategies and feeds, and peers, in one run.

    python bench/parallel.py --python PYTHON [--rounds 3] [--steps 20]

PYTHON has requirements-parallel.txt and Tarmac. Every measurement is a fresh process, or group of
processes under torchrun, with the same network, optimizer, precision and number of random samples;
measurements alternate, round after round. The first epoch is left out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from _harness import Spread, run_child, table, write_results

PROGRAM = str(Path(__file__).parent / "peers" / "parallel_step.py")
MODELS = ("mnist-convnet", "cifar10-convnet")
PRECISIONS = ("fp32", "bf16")
PEERS = {
    "tarmac": "Tarmac",
    "ddp": "PyTorch DDP",
    "lightning": "Lightning",
    "accelerate": "Accelerate",
}
WORLDS = (1, 2, 3, 4)
FEEDS = ("resident", "prefetch", "direct")
BATCH_SIZE = 128
EPOCHS = 4

# Who, which network, in which precision, by how many processes, with what options.
Case = tuple[str, str, str, int, str]


def cases() -> list[Case]:
    """Return everything to be measured in a round."""
    found: list[Case] = []
    for model in MODELS:
        found += [(how, model, p, 2, "") for p in PRECISIONS for how in PEERS]
        found += [("tarmac", model, "bf16", n, "") for n in WORLDS]
        found += [("tarmac", model, "bf16", 0, f"strategy=towers devices=cpu:{n}") for n in WORLDS]
    for model in (*MODELS, "mnist-mlp"):
        found += [("tarmac", model, "bf16", 0, f"feed={feed}") for feed in FEEDS]
    return list(dict.fromkeys(found))


def measure(python: str, case: Case, steps: int) -> list[float]:
    """Return the seconds per step of each epoch but the first."""
    how, model, precision, num_processes, options = case
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_processes}"]
    command = [python, *(launcher if num_processes else [])]
    arguments = [how, model, precision, str(steps), str(EPOCHS), *options.split()]
    child = run_child([*command, PROGRAM, *arguments], {"TORCH_CPP_LOG_LEVEL": "ERROR"})
    return list(child.result["step_s"][1:])


def main() -> None:
    """Run the rounds and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="has requirements-parallel.txt and Tarmac")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="per epoch")
    given = parser.parse_args()
    found: dict[Case, list[float]] = {case: [] for case in cases()}
    for number in range(given.rounds):
        for case in found:
            found[case] += measure(given.python, case, given.steps)
        print(f"round {number} is done", file=sys.stderr, flush=True)
    step_ms = {case: Spread.of([1e3 * s for s in seconds]) for case, seconds in found.items()}

    def show(*case: object) -> tuple[str, float]:
        spread = step_ms[case]  # type: ignore[index]
        return spread.show(1), spread.median

    peers, added, feeds = [], [], []
    for model in MODELS:
        for precision in PRECISIONS:
            _, own = show("tarmac", model, precision, 2, "")
            for how, name in PEERS.items():
                text, median = show(how, model, precision, 2, "")
                peers.append([model, precision, name, text, f"{median / own:.2f}"])
        _, alone = show("tarmac", model, "bf16", 0, "feed=resident")
        for n in WORLDS:
            ddp, ddp_ms = show("tarmac", model, "bf16", n, "")
            towers, towers_ms = show("tarmac", model, "bf16", 0, f"strategy=towers devices=cpu:{n}")
            costs = [f"{ddp_ms - alone:+.1f}", f"{towers_ms - alone:+.1f}"]
            added.append([model, str(n), ddp, costs[0], towers, costs[1]])
    for model in (*MODELS, "mnist-mlp"):
        row = [model]
        for feed in FEEDS:
            text, median = show("tarmac", model, "bf16", 0, f"feed={feed}")
            row.append(f"{1e3 * BATCH_SIZE / median:,.0f} ({text} ms)")
        feeds.append(row)
    versions = subprocess.run(
        [given.python, "-m", "pip", "list", "--format=freeze"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    wanted = ("torch==", "lightning==", "accelerate==")
    text = (
        f"Global batches of {BATCH_SIZE}, {given.steps} steps an epoch, {EPOCHS - 1} epochs after "
        f"one that is left out, {given.rounds} rounds, alternating: "
        f"{', '.join(v for v in versions if v.startswith(wanted))}. Medians over epochs, with the "
        "lowest and highest in brackets. Processes share this machine's cores, and a step's work "
        "is the same however many there are: without any cost it would take as long as one "
        "process does.\n\n"
        "## Two processes over Gloo, milliseconds a step\n\n"
        f"{table(['network', 'precision', '', 'ms', 'over Tarmac'], peers)}\n\n"
        "## What parallelism adds to a step of one process (bf16)\n\n"
        f"{table(['network', 'replicas', 'ddp ms', 'added', 'towers ms', 'added'], added)}\n\n"
        "## Feeds on one device (bf16), samples/s\n\n"
        f"{table(['network', *FEEDS], feeds)}"
    )
    data = {
        "rounds": given.rounds,
        "steps": given.steps,
        "step_ms": [
            {
                "how": how,
                "network": model,
                "precision": precision,
                "processes": num_processes,
                "options": options,
                "ms": step_ms[how, model, precision, num_processes, options].values,
            }
            for how, model, precision, num_processes, options in step_ms
        ],
    }
    write_results("parallel", data, text)


if __name__ == "__main__":
    main()
