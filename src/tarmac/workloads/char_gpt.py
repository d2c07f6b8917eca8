"""char-gpt: nanoGPT's character-level transformer for a GPU, on Shakespeare's plays.

Source: karpathy/nanoGPT, config/train_shakespeare_char.py: 6 layers of 6 heads and width 384, 256
characters, dropout 0.2, batches of 64, 5,000 steps; AdamW (0.9, 0.99) at 1e-3 after 100 steps of
warm-up, along a cosine to a tenth; weight decay 0.1, gradients clipped at norm 1.

nanoGPT's README reports a loss of 1.4697 on the last tenth of the text: the best of estimates every
250 steps. So an epoch is 250 steps here. The loss of the final weights is not published, so the
workload has no expectation. To keep the best weights, hold text out: ``--validation-size 50000``.
"""

from __future__ import annotations

from torch import nn

from tarmac import data
from tarmac.workloads.base import Recipe, Workload
from tarmac.workloads.gpt import GPT, NO_DECAY
from tarmac.workloads.objectives import NextToken
from tarmac.workloads.optimizers import AdamW
from tarmac.workloads.schedules import Cosine

_LENGTH = 256
_NUM_STEPS = 5000
_STEPS_PER_EPOCH = 250
_BATCH_SIZE = 64


def model(layers: int = 6, heads: int = 6, width: int = 384, dropout: float = 0.2) -> nn.Module:
    """Build the transformer for the text's 65 characters."""
    return GPT(
        vocabulary=65,
        length=_LENGTH,
        num_layers=layers,
        num_heads=heads,
        width=width,
        dropout=dropout,
    )


def dataset() -> data.Dataset:
    """Return all windows of 256 characters to train on; test windows do not overlap."""
    text = data.load_text("tinyshakespeare")
    return text.windows("tinyshakespeare", _LENGTH, stride=1)


workload = Workload(
    name="char-gpt",
    summary="nanoGPT's transformer for a GPU, character by character, on Shakespeare",
    dataset=dataset,
    model=model,
    objective=NextToken(),
    recipe=Recipe(
        optimizer=AdamW(learning_rate=1e-3, beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.1),
        schedule=Cosine(warmup=100 / _NUM_STEPS, end=0.1),
        weight_decay=NO_DECAY,
        clip_norm=1.0,
        batch_size=_BATCH_SIZE,
        samples_per_epoch=_STEPS_PER_EPOCH * _BATCH_SIZE,
        epochs=_NUM_STEPS // _STEPS_PER_EPOCH,
    ),
)
