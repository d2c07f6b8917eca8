"""What reference workloads reach in fp16 with a scaled loss, beside fp32, on a CPU.

python bench/fp16_accuracy.py [--seeds 3] [WORKLOAD ...]

Each seed is trained in both precisions, one after the other. Workloads of MNIST need its files:
set TARMAC_DATA.
"""

from __future__ import annotations

import argparse
import sys
import tempfile

from _harness import TARMAC, Spread, run_child, table, write_results

# Which need no download.
_EMBEDDED = ("digits-mlp", "diabetes-mlp", "digits-autoencoder")

_PRECISIONS = ("fp32", "fp16")


def main() -> None:
    """Train, and write what each workload reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=_EMBEDDED, metavar="WORKLOAD")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    reached: dict[str, dict[str, list[float]]] = {}
    rows = []
    for workload in given.workloads:
        metric = expected = ""
        reached[workload] = {precision: [] for precision in _PRECISIONS}
        met = dict.fromkeys(_PRECISIONS, 0)
        for seed in range(given.seeds):
            for precision in _PRECISIONS:
                result = _train(workload, precision, seed)
                bounds = result["expectation"]
                metric = bounds["metric"]
                most, least = bounds["at_most"], bounds["at_least"]
                expected = f"at most {most:g}" if least is None else f"at least {least:g}"
                reached[workload][precision].append(result["metrics"][metric])
                met[precision] += bounds["met"]
        for precision, values in reached[workload].items():
            as_expected = f"{met[precision]} of {given.seeds}"
            rows.append(
                [workload, precision, metric, Spread.of(values).show(4), expected, as_expected]
            )
    header = ["workload", "precision", "metric", "median (range)", "expected", "as expected"]
    write_results("fp16-accuracy", {"reached": reached}, table(header, rows))


def _train(workload: str, precision: str, seed: int) -> dict:
    with tempfile.TemporaryDirectory() as output:
        words = ["train", workload, "--json", "--device", "cpu", "--output", output]
        words += ["--precision", precision, "--seed", str(seed)]
        result = run_child([*TARMAC, *words]).result
    values = {k: v for k, v in result["metrics"].items() if k.startswith("test_")}
    print(f"{workload} {precision} seed {seed}: {values}", file=sys.stderr, flush=True)
    return result


if __name__ == "__main__":
    main()
