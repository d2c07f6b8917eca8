"""mnist-mlp, 20 epochs: Tarmac against plain CUDA loops, alternating, each in a fresh process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from _harness import table
from gpu_stages._figures import accuracy, spread
from gpu_stages._tarmac import can_fuse, need_mnist, peer, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_stages._report import Report

_EPOCHS = 20
_ROUNDS = 5
# Two show fp32 beside bf16.
_FP32_ROUNDS = 2
# torch.compile takes a minute when it is cold: once is enough to show it.
_COMPILED = "loop, reduce-overhead, bf16"
_COMPILED_S = 60.0


def run(report: Report) -> None:
    """Run rounds until all are done or too little time is left for another."""
    need_mnist()

    def tarmac(*words: object) -> Callable[[int], dict[str, Any]]:
        return lambda seed: _of_tarmac(report, seed, *words)

    def loop(*words: object) -> Callable[[int], dict[str, Any]]:
        return lambda seed: peer(report, "torch_cuda.py", _EPOCHS, seed, *words)

    ways = {
        "Tarmac": tarmac(),
        "loop, graph, bf16": loop("graph", "bf16"),
        "loop, bf16": loop("plain", "bf16"),
    }
    if can_fuse():
        ways["Tarmac, unfused"] = tarmac("--fused", "off")
    in_fp32 = {
        "Tarmac, fp32": tarmac("--precision", "fp32"),
        "loop, graph, fp32": loop("graph", "fp32"),
        "loop, fp32": loop("plain", "fp32"),
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in (*ways, *in_fp32)}
    longest_round = 0.0
    for seed in range(_ROUNDS):
        before = report.seconds_left
        if before < 1.3 * longest_round + _COMPILED_S:
            break
        for name, way in (ways | (in_fp32 if seed < _FP32_ROUNDS else {})).items():
            with report.part(f"{name}, seed {seed}"):
                found[name].append(way(seed))
                report.keep("runs", found)
        longest_round = max(longest_round, before - report.seconds_left)
        if seed == 0:
            with report.part("one process"):
                limit = min(20.0, report.seconds_left / 4)
                warm = peer(report, "gpu_trainings.py", "mnist-mlp", 0, _ROUNDS, limit)
                found["Tarmac, in one process"] = warm["trainings"]
                report.keep("runs", found)
    if report.seconds_left > 40:
        with report.part(_COMPILED):
            limit = report.seconds_left - 5
            words = (_EPOCHS, 0, "compile", "bf16")
            found[_COMPILED] = [peer(report, "torch_cuda.py", *words, limit_s=limit)]
            report.keep("runs", found)
    rows = [_row(name, runs) for name, runs in found.items() if runs]
    header = [
        "",
        "n",
        "training s",
        "set-up s",
        "process s",
        "last epoch s",
        "accuracy %",
        "GPU MiB",
    ]
    text = (
        f"mnist-mlp, {_EPOCHS} epochs of 469 steps; alternating, a fresh process each but where it "
        "says otherwise; medians with the lowest and highest in brackets, accuracy is mean ± "
        "standard deviation. Training is what the program itself counts, with first use and "
        f"recording; Tarmac's process also writes its run.\n\n{table(header, rows)}"
    )
    report.page("mnist-mlp", {"epochs": _EPOCHS, "runs": found}, text)


def _of_tarmac(report: Report, seed: int, *words: object) -> dict[str, Any]:
    # The check before a training is a matter of once a boot; `check` measures it.
    options = ("--epochs", _EPOCHS, "--seed", seed, "--no-check", *words)
    answer = train(report, "mnist-mlp", *options)
    return {name: answer[name] for name in ("process_s", "epoch_s", "memory_mib")} | {
        **answer["metrics"],
        "precision": answer["precision"],
        "fused": answer["fused"],
    }


def _row(name: str, runs: list[dict[str, Any]]) -> list[str]:
    last = [{"last": run["epoch_s"][-1]} for run in runs if run.get("epoch_s")]
    return [
        name,
        str(len(runs)),
        spread(runs, "train_seconds"),
        spread(runs, "setup_s"),
        spread(runs, "process_s", 2),
        spread(last, "last", 4),
        accuracy([run["test_accuracy"] for run in runs]),
        spread(runs, "memory_mib", 0),
    ]
