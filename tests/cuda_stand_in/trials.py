"""Trains everything over the stand-in, and writes what each case asked of the GPU.

    python trials.py {one,two,ranks,launched} OUTPUT.json [NAME ...]

It runs in the environment of a bed; see ``bed.py``. Many cases share a process, as starting one
takes longer than most of them. OUTPUT.json gets an object by the cases' names: their figures, or
under ``error`` the traceback of what was raised.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from counting import Counts, read_counts
from own_workloads import classifiers, normed, others, plain, reading, samples, small

import tarmac
from tarmac.studies.evaluation.interface import Candidate
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.training import Silent
from tarmac.training.plan import ArrayFeed, Precision
from tarmac.workloads import Workload, find_workload

OPTIMIZERS = ("rmsprop", "adam", "sgd", "adagrad", "adadelta", "adamax", "nadam")
ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")
_EPOCHS = 3
_HELD_OUT = 1000

Figures = dict[str, float]


class _Watch(Silent):
    """Takes the counts at steps of the last epoch, and at the ends of epochs."""

    def __init__(self, stop_at: tuple[int, int] | None = None) -> None:
        self._stop_at = stop_at
        self._whole_steps = 0
        self._epoch = 0
        self.steps: list[tuple[int, Counts]] = []
        self.ends: list[Counts] = []

    def started(self, plan, run, num_parameters) -> None:
        self._whole_steps = plan.train_size // plan.shares.batch_size

    def stepped(self, epoch, step, score) -> None:
        if epoch != self._epoch:
            self._epoch, self.steps = epoch, []
        if step <= self._whole_steps:
            self.steps = [*self.steps[:1], (step, read_counts())]
        if (epoch, step) == self._stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def epoch_done(self, row) -> None:
        self.ends.append(read_counts())

    def figures(self) -> Figures:
        """Return what a whole step asks of the GPU in the last epoch, and what an epoch asks."""
        (first, at_first), (last, at_last) = self.steps
        if at_first.submissions == at_last.submissions:
            # All were told of after one call: what the epoch's beginning asked counts as theirs.
            first, at_first = 0, self.ends[-2]
        step = at_last.since(at_first)
        epoch = self.ends[-1].since(self.ends[-2])
        return {
            **_by_step(step, last - first),
            "epoch_submissions": epoch.submissions,
            "epoch_synchronisations": epoch.synchronisations,
        }


def _by_step(counts: Counts, num_steps: int) -> Figures:
    return {
        "submissions": round(counts.submissions / num_steps, 2),
        "operations": round(counts.operations / num_steps, 2),
        "synchronisations": round(counts.synchronisations / num_steps, 2),
    }


@dataclasses.dataclass(frozen=True)
class _Here:
    """What is held of the GPUs now."""

    allocated: int
    reserved: int
    graphs: int

    @classmethod
    def now(cls) -> _Here:
        gpus = range(torch.cuda.device_count())
        return cls(
            sum(map(torch.cuda.memory_allocated, gpus)),
            sum(map(torch.cuda.memory_reserved, gpus)),
            read_counts().live_graphs,
        )


def _with_memory(train: Callable[[], Figures]) -> Figures:
    """Add what a training leaves behind: until Python collects cycles, and for ever."""
    _clear()
    gc.disable()
    before, counts = _Here.now(), read_counts()
    figures = train()
    # Of the library itself, which keeps some for every stream that it has worked on.
    torch._C._cuda_clearCublasWorkspaces()
    after = _Here.now()
    gc.enable()
    _clear()
    last = _Here.now()
    return figures | {
        "broken_captures": read_counts().since(counts).broken_captures,
        "kept_bytes": after.allocated - before.allocated,
        "kept_graphs": after.graphs - before.graphs,
        "leaked_bytes": last.reserved - before.reserved,
        "leaked_graphs": last.graphs - before.graphs,
    }


def _clear() -> None:
    """Give back all that nobody holds."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()


def _train(workload: Workload | str, **options: Any) -> Figures:
    watch = _Watch()
    with tempfile.TemporaryDirectory() as directory:
        asked = {"epochs": _EPOCHS, "precision": "bf16"} | options
        run = tarmac.train(workload, output=directory, reporter=watch, **asked)
        assert run.record.status == "completed", run.record
    return watch.figures()


def _train_stopped(workload: Workload) -> Figures:
    """Stop a training within an epoch, and go on with it."""
    stopping, watch = _Watch(stop_at=(1, 9)), _Watch()
    with tempfile.TemporaryDirectory() as directory:
        run = tarmac.train(workload, output=directory, epochs=_EPOCHS, reporter=stopping)
        assert run.record.status == "interrupted", run.record
        tarmac.resume(run.path, workload=workload, reporter=watch)
    return watch.figures()


def _train_stack(candidates: list[Candidate], precision: str) -> Figures:
    """Train a stack on some and on more steps, whose difference is what a step asks."""
    counts = []
    for num_steps in (32, 64):
        ends: dict[int, Counts] = {}

        def report(progress, ends: dict[int, Counts] = ends) -> bool:
            ends[progress.epoch] = read_counts()
            return False

        evaluator = StackedEvaluator(
            dataclasses.replace(find_workload("mlp"), dataset="digits"),
            samples("digits", 64 * 128 + _HELD_OUT),
            validation_size=_HELD_OUT,
            train_size=num_steps * 128,
            settings={"neurons": 64},
            device="cuda:0",
            precision=precision,
        )
        for result in evaluator.evaluate(candidates, report):
            assert result.error is None, result.error
        counts.append(ends[_EPOCHS].since(ends[_EPOCHS - 1]))
    few, many = counts
    return {
        **_by_step(many.since(few), 32),
        "epoch_submissions": many.submissions,
        "epoch_synchronisations": many.synchronisations,
    }


def _search(devices: str) -> Figures:
    """Search with the processes or stacks that a search itself chooses."""
    with tempfile.TemporaryDirectory() as directory:
        study = tarmac.search(
            "mlp",
            output=directory,
            method="brute",
            space={"dataset": "digits", "neurons": [8, 16], "optimizer": ["adam", "sgd"]},
            epochs=1,
            devices=devices,
        )
        assert study.status == "completed", study.record
        assert {trial["state"] for trial in study.trials} == {"complete"}, study.trials
    return {}


def _candidates(choices: list[dict[str, Any]]) -> list[Candidate]:
    # One leaves after an epoch, and the others go on.
    return [
        Candidate(number=n, settings=one, seed=n, epochs=1 if n == 1 else _EPOCHS)
        for n, one in enumerate(choices)
    ]


def _cases_on_one() -> dict[str, Callable[[], Figures]]:
    cases: dict[str, Callable[[], Figures]] = {}

    def add(name: str, workload: Workload, **options: Any) -> None:
        cases[name] = lambda: _train(workload, **options)

    # Of the large workloads and of fp16 no bounds are measured.
    for name, workload in ({name: small(name) for name in classifiers()} | others()).items():
        for precision in ("bf16", "fp32"):
            add(f"{name} {precision}", workload, precision=precision)
    for precision in {*get_args(Precision)} - {"bf16", "fp16", "fp32"}:
        add(f"precision {precision}", plain, precision=precision)
    add("deterministic", plain, deterministic=True)
    add("deterministic convolutions", small("mnist-cnn"), deterministic=True)
    add("accumulate", plain, accumulate=2)
    validated = small("mnist-mlp", num_held_out=_HELD_OUT)
    add("validation", validated, validation_size=_HELD_OUT)
    add("towers of one", plain, strategy="towers")
    for optimizer in OPTIMIZERS:
        add(f"optimizer {optimizer}", small("mlp"), settings={"optimizer": optimizer})
    for feed in get_args(ArrayFeed):
        add(f"feed {feed}", plain, feed=feed)
    cases["stopped and resumed"] = lambda: _train_stopped(plain)

    def add_stack(name: str, choices: list[dict[str, Any]]) -> None:
        for precision in ("bf16", "fp32"):
            cases[f"stack of {name} {precision}"] = lambda precision=precision: _train_stack(
                _candidates(choices), precision
            )

    add_stack("20 equal", [{"optimizer": "rmsprop", "activation": "relu"}] * 20)
    mixed = [{"optimizer": o, "activation": a} for o in OPTIMIZERS for a in ACTIVATIONS]
    add_stack("28 mixed", mixed)
    shapes = [{"neurons": 16 * (1 + n % 4), "layers": 1 + n % 3} for n in range(20)]
    add_stack("20 ragged", shapes)
    # Last, for what a failed capture leaves behind would be seen in those that follow.
    for feed in get_args(ArrayFeed):
        add(f"unrecordable, feed {feed}", reading, feed=feed)
    return cases


def _cases_on_two() -> dict[str, Callable[[], Figures]]:
    both = {"devices": "2", "strategy": "towers"}
    return {
        "towers of two": lambda: _train(plain, **both),
        "towers of two, convolutions": lambda: _train(small("mnist-convnet"), **both),
        "towers of two, accumulate": lambda: _train(plain, accumulate=2, **both),
        "towers of two, fp16": lambda: _train(plain, precision="fp16", **both),
        "towers of two, feed prefetch": lambda: _train(plain, feed="prefetch", **both),
        "single on the second": lambda: _train(plain, devices="cuda:1"),
    }


def _cases_of_ranks() -> dict[str, Callable[[], Figures]]:
    ranks = int(os.environ["WORLD_SIZE"])
    cases = {
        "": lambda: _train(plain),
        ", convolutions": lambda: _train(small("mnist-convnet")),
        ", accumulate": lambda: _train(plain, accumulate=2),
        ", feed prefetch": lambda: _train(plain, feed="prefetch"),
        ", synchronised normalisation": lambda: _train(normed, sync_batchnorm=True),
    }
    return {f"ddp of {ranks}{name}": case for name, case in cases.items()}


def _launched() -> Figures:
    """Train in workers of Tarmac's own."""
    file = Path(__file__).with_name("own_workloads.py")
    with tempfile.TemporaryDirectory() as directory:
        options = {"epochs": 1, "devices": "2", "strategy": "ddp", "output": directory}
        run = tarmac.train(f"{file}:plain", **options)
        assert run.record.status == "completed", run.record
        assert run.record.parallel.backend == "nccl", run.record
    return {}


GROUPS: Mapping[str, Callable[[], dict[str, Callable[[], Figures]]]] = {
    "one": _cases_on_one,
    "two": _cases_on_two,
    "ranks": _cases_of_ranks,
    # What is done in other processes too, whose counts are not seen.
    "launched": lambda: {
        "workers of ddp": _launched,
        "search on one": lambda: _search("cuda:0"),
        "search on two": lambda: _search("2"),
    },
}


def main() -> None:
    """Do the cases of a group, or those of them that are named."""
    group, output, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    cases = {n: case for n, case in GROUPS[group]().items() if not names or n in names}
    is_main = os.environ.get("RANK", "0") == "0"
    if group in ("one", "two"):
        # What is made once for a process, such as handles of libraries.
        _train(plain, epochs=2)
    found: dict[str, object] = {}
    for name, case in cases.items():
        try:
            if group == "launched" or not is_main:
                found[name] = case()
            else:
                found[name] = _with_memory(case)
        except Exception:
            found[name] = {"error": traceback.format_exc()}
    if is_main:
        output.write_text(json.dumps(found, indent=1))
    # Python would end a thread of autograd that still lets go of something, and C++ then aborts.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
