"""Trains a workload's network for some epochs, by Tarmac or a peer, as one of several processes.

    torchrun --nproc-per-node N parallel_step.py HOW MODEL PRECISION STEPS EPOCHS [key=value ...]

HOW is tarmac, ddp (PyTorch's own), lightning or accelerate. All train the same model with the same
optimizer, preprocessing and loss on the same number of random samples of the data's shape. Peers
get ready-made batches, so that none pays for a loader. Rank 0 prints one JSON line. Pairs of key
and value go to `tarmac.training`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

import tarmac
from tarmac import data
from tarmac.workloads import find_workload

HOW, MODEL, PRECISION = sys.argv[1:4]
STEPS, EPOCHS = int(sys.argv[4]), int(sys.argv[5])
OPTIONS = dict(pair.split("=") for pair in sys.argv[6:])
SHAPES = {"cifar10-convnet": (3, 32, 32)}

rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
workload = find_workload(MODEL)
recipe = workload.recipe
if HOW != "tarmac":
    torch.set_num_threads(max(1, os.cpu_count() // world_size))
    torch.manual_seed(0)


def samples() -> data.Dataset:
    """Return random samples, enough for an epoch."""
    rng = np.random.default_rng(0)
    shape = (STEPS * recipe.batch_size, *SHAPES.get(MODEL, (28, 28)))
    inputs = rng.integers(0, 256, shape, dtype=np.uint8)
    targets = rng.integers(0, 10, len(inputs))
    split = data.Split(inputs, targets)
    test = data.Split(inputs[:10], targets[:10])
    return data.Dataset(name="random", train=split, test=test, num_classes=10)


def by_tarmac() -> list[float]:
    """Train as `tarmac.training` does."""
    mine = dataclasses.replace(workload, dataset=samples)
    with tempfile.TemporaryDirectory() as output:
        run = tarmac.train(mine, epochs=EPOCHS, precision=PRECISION, output=output, **OPTIONS)
        seconds = [row["seconds"] for row in run.history] if rank == 0 else []
        if world_size > 1:
            # The first rank's directory holds what the others have not read.
            torch.distributed.init_process_group("gloo")
            torch.distributed.barrier()
    return seconds


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return this rank's slice of every batch of an epoch."""
    split = samples().train
    size = recipe.batch_size // world_size
    inputs = torch.from_numpy(split.inputs).split(recipe.batch_size)
    targets = torch.from_numpy(split.targets).split(recipe.batch_size)
    mine = slice(rank * size, (rank + 1) * size)
    return [(x[mine].clone(), y[mine].clone()) for x, y in zip(inputs, targets, strict=True)]


def optimizer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Return the recipe's optimizer, by PyTorch."""
    named = list(model.named_parameters())
    groups = [
        {
            "params": [p for name, p in named if recipe.weight_decay.get(name, 0.0) == decay],
            "weight_decay": decay,
        }
        for decay in {0.0, *recipe.weight_decay.values()}
    ]
    own = recipe.optimizer
    return torch.optim.SGD(
        groups, lr=own.learning_rate, momentum=own.momentum, nesterov=own.nesterov
    )


def loss_of(model: torch.nn.Module, raw: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of a batch, preprocessed by the workload."""
    inputs = recipe.preprocess(raw, training=True, dtype=torch.float32)
    return F.cross_entropy(model(inputs), targets)


def by_ddp() -> list[float]:
    """Train as PyTorch's tutorial on DistributedDataParallel does."""
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(workload.model())
    optimizer = optimizer_of(model.module)
    ready, seconds = batches(), []
    for _ in range(EPOCHS):
        started = time.perf_counter()
        for raw, targets in ready:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, PRECISION == "bf16"):
                loss = loss_of(model, raw, targets)
            loss.backward()
            optimizer.step()
        seconds.append(time.perf_counter() - started)
    return seconds


def by_lightning() -> list[float]:
    """Train by Lightning's Trainer."""
    import logging
    import warnings

    import lightning
    from torch.utils.data import DataLoader

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    seconds = []

    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = workload.model()

        def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
            return loss_of(self.model, *batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimizer_of(self.model)

        def on_train_epoch_start(self) -> None:
            self.started = time.perf_counter()

        def on_train_epoch_end(self) -> None:
            seconds.append(time.perf_counter() - self.started)

    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=world_size,
        strategy="ddp",
        precision="bf16-mixed" if PRECISION == "bf16" else "32-true",
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(), DataLoader(batches(), batch_size=None))
    return seconds


def by_accelerate() -> list[float]:
    """Train as Accelerate's quick tour does."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, mixed_precision="bf16" if PRECISION == "bf16" else "no")
    model = workload.model()
    model, optimizer = accelerator.prepare(model, optimizer_of(model))
    ready, seconds = batches(), []
    for _ in range(EPOCHS):
        started = time.perf_counter()
        for raw, targets in ready:
            optimizer.zero_grad()
            with accelerator.autocast():
                loss = loss_of(model, raw, targets)
            accelerator.backward(loss)
            optimizer.step()
        seconds.append(time.perf_counter() - started)
    return seconds


epoch_s = {
    "tarmac": by_tarmac,
    "ddp": by_ddp,
    "lightning": by_lightning,
    "accelerate": by_accelerate,
}[HOW]()
if rank == 0:
    print(json.dumps({"step_s": [seconds / STEPS for seconds in epoch_s]}))
