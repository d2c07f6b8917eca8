"""char-gpt-small: nanoGPT's character-level transformer for a CPU, on Shakespeare's plays.

Source: karpathy/nanoGPT, config/train_shakespeare_char.py with the settings that its README gives
for a CPU: 4 layers of 4 heads and width 128, 64 characters, batches of 12, 2,000 steps, no dropout;
AdamW (0.9, 0.99) at 1e-3 after 100 steps of warm-up, along a cosine to a tenth; weight decay 0.1,
gradients clipped at norm 1. nanoGPT reports a loss of 1.88, estimated on 20 random batches of the
last tenth of the text.

As in nanoGPT, each step draws random windows. Here no window is drawn twice, which hardly matters
among a million windows. Seeds 0 to 2 reach 1.912, 1.897 and 1.894; a plain PyTorch loop reaches
1.900 and 1.896. These losses are over all windows of the last tenth, not estimates. For the weights
of the plain loop, 20 random batches give 1.886 and 1.882.

With as many windows on a grid, at a stride of 41 characters, seed 0 reaches only 1.949. A plain
loop over the same windows in the same order reaches 1.948, and 1.931 with seed 1.
"""

from __future__ import annotations

from torch import nn

from tarmac import data
from tarmac.workloads.base import Recipe, Workload
from tarmac.workloads.expectation import Expectation
from tarmac.workloads.gpt import GPT, NO_DECAY
from tarmac.workloads.objectives import NextToken
from tarmac.workloads.optimizers import AdamW
from tarmac.workloads.schedules import Cosine

_LENGTH = 64
_NUM_STEPS = 2000
_BATCH_SIZE = 12


def model(layers: int = 4, heads: int = 4, width: int = 128, dropout: float = 0.0) -> nn.Module:
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
    """Return all windows of 64 characters to train on; test windows do not overlap."""
    text = data.load_text("tinyshakespeare")
    return text.windows("tinyshakespeare", _LENGTH, stride=1)


workload = Workload(
    name="char-gpt-small",
    summary="nanoGPT's transformer for a CPU, character by character, on Shakespeare",
    dataset=dataset,
    model=model,
    objective=NextToken(),
    recipe=Recipe(
        optimizer=AdamW(learning_rate=1e-3, beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.1),
        schedule=Cosine(warmup=100 / _NUM_STEPS, end=0.1),
        weight_decay=NO_DECAY,
        clip_norm=1.0,
        batch_size=_BATCH_SIZE,
        samples_per_epoch=_NUM_STEPS * _BATCH_SIZE,
        epochs=1,
    ),
    expectation=Expectation(
        at_most=1.92,
        source="measured over seeds; karpathy/nanoGPT: 1.88 of 20 random batches",
    ),
)
