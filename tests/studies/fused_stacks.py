"""Trains a mixed stack by both computations on the CPU and writes each epoch's metrics as JSON.

    TRITON_INTERPRET=1 python fused_stacks.py

Triton's interpreter runs the kernels' own program, an operation at a time, so it is kept small.
"""

from __future__ import annotations

import dataclasses
import json
import sys

import torch
from torch import nn

from tarmac import data
from tarmac.studies.evaluation.interface import Candidate
from tarmac.studies.evaluation.stacked.draws import Draws
from tarmac.studies.evaluation.stacked.fused import FusedKernels
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


def model(activation: str = "relu") -> nn.Module:
    """Build a network of odd widths."""
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(64, 19), ACTIVATIONS[activation]()),
        *(nn.Linear(19, 9), ACTIVATIONS[activation](), nn.Linear(9, 10)),
    )


def networks():
    """Return a network of each optimizer, with every part of a recipe."""
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
            settings={"activation": [*ACTIVATIONS][number % 4]},
            seed=number,
            epochs=NUM_EPOCHS,
        )
        yield resolve(candidate, workload, DIGITS, {})


DIGITS = data.load("digits")
members = arranged([*networks()], CPU)
samples = Samples(data.hold_out(DIGITS, train_size=NUM_TRAIN, validation_size=24), CPU)
found = {}
for kind in (Products, FusedKernels):
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
                draws.keep(KEPT)
                computation.keep(KEPT)
    draws.close()
    found[kind.__name__] = rows
sys.stdout.write(json.dumps(found))
