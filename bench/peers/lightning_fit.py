"""mnist-mlp by Lightning's Trainer. Arguments: epochs, seed, precision. Prints one JSON line."""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
import warnings

import lightning
import torch
import torch.nn.functional as F
from _mnist import load
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
epochs, seed, precision = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
lightning.seed_everything(seed, verbose=False)
(x_train, y_train), (x_test, y_test) = load()


class Net(lightning.LightningModule):
    """The network, as Lightning's documentation would write it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(784, 512),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(512, 512),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(512, 10),
        )
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        self.epoch_s: list[float] = []

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        """Return the loss."""
        return F.cross_entropy(self.layers(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the recipe's RMSprop."""
        return torch.optim.RMSprop(self.parameters(), lr=1e-3, alpha=0.9, eps=1e-8)

    def on_train_epoch_start(self) -> None:
        """Start the clock."""
        self.start = time.perf_counter()

    def on_train_epoch_end(self) -> None:
        """Stop the clock."""
        self.epoch_s.append(time.perf_counter() - self.start)


def tensors(x, y):
    return torch.from_numpy(x.reshape(-1, 784).copy()).float() / 255, torch.from_numpy(
        y.astype("int64")
    )


net = Net()
trainer = lightning.Trainer(
    max_epochs=epochs,
    accelerator="cpu",
    precision=precision,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
loader = DataLoader(TensorDataset(*tensors(x_train, y_train)), batch_size=128, shuffle=True)
trainer.fit(net, loader)
net.eval()
x, y = tensors(x_test, y_test)
with torch.no_grad():
    accuracy = (net.layers(x).argmax(1) == y).float().mean().item()
print(
    json.dumps(
        {
            "epoch_s": net.epoch_s,
            "test_accuracy": accuracy,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "versions": {"lightning": lightning.__version__, "torch": torch.__version__},
        }
    )
)
