"""A task of `trainings.py` by the Hugging Face Trainer, fp32. Arguments: task, seed."""

from __future__ import annotations

import json
import sys
import tempfile
import time

import torch
import transformers
from _training_tasks import TASKS
from torch import nn

task, seed = TASKS[sys.argv[1]], int(sys.argv[2])
transformers.set_seed(seed)


class Model(nn.Module):
    """The network, with the loss in it, as the Trainer wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = task.network()

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the loss and the output."""
        output = self.network(inputs)
        return {"loss": task.loss(output, labels), "logits": output}


class Rows(torch.utils.data.Dataset):
    """The data as the Trainer wants them: a dictionary of each sample."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self._x, self._y = x, y

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"inputs": self._x[index], "labels": self._y[index]}


class Clock(transformers.TrainerCallback):
    """Times epochs."""

    def __init__(self) -> None:
        self.epoch_s: list[float] = []

    def on_epoch_begin(self, *_args, **_kwargs) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def on_epoch_end(self, *_args, **_kwargs) -> None:
        """Stop the clock."""
        self.epoch_s.append(time.perf_counter() - self._start)


def stack(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Return a batch."""
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


model, clock = Model(), Clock()
x, y, x_test, y_test = task.tensors()
optimizer = task.optimizer(model.parameters())
with tempfile.TemporaryDirectory() as folder:
    trainer = transformers.Trainer(
        model,
        transformers.TrainingArguments(
            folder,
            per_device_train_batch_size=task.batch_size,
            num_train_epochs=task.epochs,
            max_grad_norm=task.clip_norm,
            lr_scheduler_type="constant",
            use_cpu=True,
            seed=seed,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        ),
        data_collator=stack,
        train_dataset=Rows(x, y),
        optimizers=(optimizer, None),
        callbacks=[clock],
    )
    # It prints a line of its own, where the results of a peer belong.
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
print(
    json.dumps(
        {
            "epoch_s": clock.epoch_s,
            "test_loss": task.score(model.network, x_test, y_test),
            "parameters": sum(p.numel() for p in model.parameters()),
            "versions": {
                "transformers": transformers.__version__,
                "torch": torch.__version__,
            },
        }
    )
)
