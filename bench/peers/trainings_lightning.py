"""A task of `trainings.py` by Lightning's Trainer in fp32. Arguments: task, seed. Prints JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings

import lightning
import torch
from _training_tasks import TASKS
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
task, seed = TASKS[sys.argv[1]], int(sys.argv[2])
lightning.seed_everything(seed, verbose=False)


class Module(lightning.LightningModule):
    """The task, as Lightning's documentation would write it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = task.network()
        self.epoch_s: list[float] = []

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        """Return the loss."""
        return task.loss(self.network(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the recipe's optimizer."""
        return task.optimizer(self.parameters())

    def on_train_epoch_start(self) -> None:
        """Start the clock."""
        self.start = time.perf_counter()

    def on_train_epoch_end(self) -> None:
        """Stop the clock."""
        self.epoch_s.append(time.perf_counter() - self.start)


module = Module()
x, y, x_test, y_test = task.tensors()
trainer = lightning.Trainer(
    max_epochs=task.epochs,
    accelerator="cpu",
    precision="32-true",
    gradient_clip_val=task.clip_norm or None,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(module, DataLoader(TensorDataset(x, y), batch_size=task.batch_size, shuffle=True))
print(
    json.dumps(
        {
            "epoch_s": module.epoch_s,
            "test_loss": task.score(module.network, x_test, y_test),
            "parameters": sum(p.numel() for p in module.network.parameters()),
            "versions": {"lightning": lightning.__version__, "torch": torch.__version__},
        }
    )
)
