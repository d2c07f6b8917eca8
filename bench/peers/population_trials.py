"""Trains MLPs of one shape on MNIST, stacked or alone. Prints one JSON line.

    python population_trials.py HOW NEURONS LAYERS NETWORKS STEPS EPOCHS

HOW is ``stacked`` (all as one), ``alone`` (the same code, stacks of one) or ``train``
(`tarmac.training`, one after another). All seven optimizers and four activations take turns.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

import torch

import tarmac
from tarmac import data
from tarmac.studies.evaluation.interface import Candidate
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.workloads import find_workload

OPTIMIZERS = ("rmsprop", "adam", "sgd", "adagrad", "adadelta", "adamax", "nadam")
ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")
VALIDATION = 1000

how, *numbers = sys.argv[1:]
neurons, layers, num_networks, steps, epochs = map(int, numbers)
# What one core does: a search gives each core a process.
torch.set_num_threads(1)
torch.set_flush_denormal(True)
workload, dataset = find_workload("mlp"), data.load("mnist")
sizes = {"train_size": steps * 128, "validation_size": VALIDATION}


def candidates(count: int, epochs: int) -> list[Candidate]:
    return [
        Candidate(
            number=number,
            settings={
                "neurons": neurons,
                "layers": layers,
                "optimizer": OPTIMIZERS[number % 7],
                "activation": ACTIVATIONS[number % 4],
            },
            seed=number,
            epochs=epochs,
        )
        for number in range(count)
    ]


def search(chosen: list[Candidate]) -> None:
    if how == "train":
        with tempfile.TemporaryDirectory() as output:
            for one in chosen:
                options = {"seed": one.seed, "epochs": one.epochs, "output": output, **sizes}
                tarmac.train("mlp", settings=one.settings, **options)
        return
    groups = [chosen] if how == "stacked" else [[one] for one in chosen]
    for group in groups:
        for result in evaluator.evaluate(group, lambda _progress: False):
            assert result.error is None, result.error


evaluator = StackedEvaluator(workload, dataset, **sizes)
search(candidates(1, 1))
started = time.perf_counter()
search(candidates(num_networks, epochs))
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "step_us": seconds / num_networks / epochs / steps * 1e6}))
