"""Trains a mixed stack by both computations on the CPU and writes each epoch's metrics as JSON.

    TRITON_INTERPRET=1 python fused_stacks.py

Triton's interpreter runs the kernels' own program, an operation at a time, so it is kept small.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys

import torch
from torch import nn

from tarmac import data
from tarmac.studies.evaluation.interface import Candidate
from tarmac.studies.evaluation.stacked.draws import Draws
from tarmac.studies.evaluation.stacked.fused import FusedKernels
from tarmac.studies.evaluation.stacked.grouping import by_shape
from tarmac.studies.evaluation.stacked.network import resolve
from tarmac.studies.evaluation.stacked.products import Products
from tarmac.studies.evaluation.stacked.samples import Samples
from tarmac.studies.evaluation.stacked.stack import arranged
from tarmac.workloads import OneCycle, Recipe, Scale, Workload, find_workload

CPU = torch.device("cpu")
ACTIVATIONS = {"relu": nn.ReLU, "elu": nn.ELU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
OPTIMIZERS = find_workload("mlp").optimizers
NUM_TRAIN, NUM_EPOCHS = 40, 2
# Of its own networks, which of the arranged ones go on after the first epoch.
KEPT = [0, 2, 3, 5, 6]


def model(activation: str = "relu", widths: str = "19-9") -> nn.Module:
    """Build a network of odd widths."""
    sizes = [64, *map(int, widths.split("-"))]
    layers = [
        layer
        for inner, outer in itertools.pairwise(sizes)
        for layer in (nn.Linear(inner, outer), ACTIVATIONS[activation]())
    ]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(sizes[-1], 10))


def networks(*shapes: str):
    """Return a network of each optimizer, with every part of a recipe, of these widths in turns."""
    names = [*OPTIMIZERS]
    for number, name in enumerate(names):
        recipe = Recipe(
            optimizer=dataclasses.replace(OPTIMIZERS[name], learning_rate=0.01),
            batch_size=16,
            epochs=NUM_EPOCHS,
            schedule=OneCycle(warmup=0.3, start=0.1, end=0.0),
            preprocess=Scale(factor=1 / 16, mean=0.3, std=0.5),
            weight_decay={"1.weight": 0.01, "*.bias": 0.001},
            label_smoothing=0.1,
        )
        workload = Workload(name="own", summary="", dataset="digits", model=model, recipe=recipe)
        candidate = Candidate(
            number=number,
            settings={
                "activation": [*ACTIVATIONS][number % 4],
                "widths": shapes[number % len(shapes)],
            },
            seed=number,
            epochs=NUM_EPOCHS,
        )
        yield resolve(candidate, workload, DIGITS, {})


DIGITS = data.load("digits")
samples = Samples(data.hold_out(DIGITS, train_size=NUM_TRAIN, validation_size=24), CPU)


def histories(kind, members, kept):
    """Return each epoch's totals and scores, ``[networks]`` each, as lists."""
    arguments = (CPU,) if kind is Products else ()
    computation = kind(members, samples, *arguments, torch.float32)
    draws = Draws(
        [member.candidate.seed for member in members],
        NUM_TRAIN,
        3,
        computation.masks,
        num_epochs=NUM_EPOCHS,
        device=CPU,
    )
    computation.start()
    with torch.no_grad():
        rows = []
        for epoch in range(NUM_EPOCHS):
            totals = computation.train_epoch(epoch, draws.take(epoch))
            rows.append([totals.tolist(), computation.validate().tolist()])
            if epoch == 0:
                draws.keep(kept)
                computation.keep(kept)
    draws.close()
    return rows


def ragged():
    """Train networks of three shapes as one by the kernels, and shape by shape by products."""
    members = arranged([*networks("19-9", "37", "8-21-16")], CPU)
    by_kernels = histories(FusedKernels, members, range(len(members)))
    by_products = [[[[0.0] * len(members) for _ in range(2)] for _ in range(2)] for _ in range(2)]
    for shape in by_shape(members):
        places = [members.index(member) for member in shape]
        for epoch, pair in enumerate(histories(Products, shape, range(len(shape)))):
            for which, values in enumerate(pair):
                for name, row in enumerate(values):
                    for place, value in zip(places, row, strict=True):
                        by_products[epoch][which][name][place] = value
    return {"FusedKernels": by_kernels, "Products": by_products}


one_shape = arranged([*networks("19-9")], CPU)
kinds = (Products, FusedKernels)
results = {
    "one shape": {kind.__name__: histories(kind, one_shape, KEPT) for kind in kinds},
    "ragged": ragged(),
}
sys.stdout.write(json.dumps(results))
