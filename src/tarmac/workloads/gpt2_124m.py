"""gpt2-124m: the smallest GPT-2, to measure a machine's speed under a real load.

Sources: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), table 2: 12
layers of width 768, 1,024 tokens; karpathy/nanoGPT, train.py and config/train_gpt2.py: 12 heads,
no biases, no dropout, the vocabulary of 50,257 tokens padded to 50,304 for efficient matrix
products; AdamW (0.9, 0.95) at 6e-4 after 2,000 of 600,000 steps of warm-up, along a cosine to a
tenth; weight decay 0.1, gradients clipped at norm 1.

nanoGPT accumulates 40 batches of 12 windows per step, over 8 GPUs together. Here a step has 12
windows by default, and 1 on a CPU, where it takes 3.8 GB. ``--batch-size 480 --accumulate 40``
gives nanoGPT's step. The warm-up takes the same share of the steps as in nanoGPT.

The data are nanoGPT's: ``openwebtext/train.bin`` and ``val.bin`` in the data directory, which its
data/openwebtext/prepare.py writes. Without these files, the tokens are random.
"""

from __future__ import annotations

from torch import nn

from tarmac import data
from tarmac.workloads.base import Recipe, Workload
from tarmac.workloads.gpt import GPT, NO_DECAY
from tarmac.workloads.objectives import NextToken
from tarmac.workloads.optimizers import AdamW
from tarmac.workloads.schedules import Cosine

_LENGTH = 1024
_VOCABULARY = 50_257
_PADDED = 50_304


def model(layers: int = 12, heads: int = 12, width: int = 768, dropout: float = 0.0) -> nn.Module:
    """Build the transformer."""
    return GPT(
        vocabulary=_PADDED,
        length=_LENGTH,
        num_layers=layers,
        num_heads=heads,
        width=width,
        dropout=dropout,
    )


def dataset() -> data.Dataset:
    """Return OpenWebText as nanoGPT prepares it, or random tokens if its files do not exist."""
    return data.load_tokens("openwebtext", _LENGTH, vocabulary=_VOCABULARY)


workload = Workload(
    name="gpt2-124m",
    summary="GPT-2 of 124 million parameters, for tokens a second: --steps 50",
    dataset=dataset,
    model=model,
    objective=NextToken(),
    recipe=Recipe(
        optimizer=AdamW(learning_rate=6e-4, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1),
        schedule=Cosine(warmup=2_000 / 600_000, end=0.1),
        weight_decay=NO_DECAY,
        clip_norm=1.0,
        batch_size=12,
        cpu_batch_size=1,
        epochs=1,
    ),
)
