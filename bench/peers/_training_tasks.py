"""What the trainings of `trainings.py` share: networks, data and recipes, in PyTorch alone.

Three tasks: ``gpt``, the character transformer in nanoGPT's settings for a CPU
(karpathy/nanoGPT, README.md), with a constant learning rate; ``resnet18`` (He et al. 2015, table 1,
with the 3x3 stem that is usual for images of 32x32) on images made here; ``table``, a perceptron on
32 numbers made here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH, WIDTH, HEADS, LAYERS, CHARACTERS = 64, 128, 4, 4, 65


@dataclass(frozen=True)
class Task:
    """One network, its data and its recipe.

    Attributes:
        network: Builds it.
        data: Returns inputs and targets to train on, then those to score.
        kind: ``"tokens"``, ``"images"`` (bytes) or ``"table"``.
        adamw: Whether AdamW (0.9, 0.99, eps 1e-8) or SGD with Nesterov's momentum of 0.9.
    """

    network: Callable[[], nn.Module]
    data: Callable[[], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
    kind: str
    batch_size: int
    epochs: int
    learning_rate: float
    weight_decay: float
    adamw: bool
    clip_norm: float

    def optimizer(self, parameters) -> torch.optim.Optimizer:
        """Return the recipe's optimizer as PyTorch has it."""
        if self.adamw:
            return torch.optim.AdamW(
                parameters,
                lr=self.learning_rate,
                betas=(0.9, 0.99),
                eps=1e-8,
                weight_decay=self.weight_decay,
            )
        return torch.optim.SGD(parameters, lr=self.learning_rate, momentum=0.9, nesterov=True)

    def loss(self, output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of a batch."""
        if self.kind == "table":
            return F.mse_loss(output, targets)
        return F.cross_entropy(output.flatten(0, -2), targets.flatten())

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the data as PyTorch's users have it: floats, and int64 for tokens and classes."""
        x, y, x_test, y_test = (torch.from_numpy(np.ascontiguousarray(a)) for a in self.data())
        if self.kind == "images":
            x, x_test = x.float() / 255, x_test.float() / 255
        if self.kind == "tokens":
            x, x_test = x.long(), x_test.long()
        if self.kind != "table":
            y, y_test = y.long(), y_test.long()
        return x, y, x_test, y_test

    @torch.no_grad()
    def score(self, network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
        """Return the mean loss of the test set."""
        network.eval()
        total = sum(
            self.loss(network(a), b).item() * len(a)
            for a, b in zip(x.split(100), y.split(100), strict=True)
        )
        return total / len(x)


class GPT(nn.Module):
    """GPT-2's decoder without biases; the embedding is the last layer too."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(CHARACTERS, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(_Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        for name, parameter in self.named_parameters():
            if not name.endswith("norm.weight"):
                deep = name.endswith("out.weight")
                nn.init.normal_(parameter, std=0.02 / (2 * LAYERS) ** 0.5 if deep else 0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits ``[batch, length, 65]``."""
        stream = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            stream = block(stream)
        return F.linear(self.norm(stream), self.tokens.weight)


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH, bias=False)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.attention_out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.perceptron_norm = nn.LayerNorm(WIDTH, bias=False)
        self.hidden = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.hidden_out = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        batch = len(stream)
        shape = (batch, LENGTH, 3, HEADS, WIDTH // HEADS)
        q, k, v = self.attention(self.attention_norm(stream)).view(shape).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        stream = stream + self.attention_out(heads.transpose(1, 2).reshape(batch, LENGTH, WIDTH))
        return stream + self.hidden_out(F.gelu(self.hidden(self.perceptron_norm(stream))))


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.short = (
            nn.Identity()
            if inputs == outputs
            else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet18() -> nn.Module:
    """Return ResNet-18 for images of 32x32 and 10 classes."""
    blocks, inputs = [], 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [_Residual(inputs, outputs, stride), _Residual(outputs, outputs, 1)]
        inputs = outputs
    network = nn.Sequential(
        nn.Conv2d(3, 64, 3, 1, 1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
    return _initialise(network)


def perceptron() -> nn.Module:
    """Return the table's network."""
    return _initialise(
        nn.Sequential(
            nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
        )
    )


def _initialise(network: nn.Module) -> nn.Module:
    """Draw the weights as Keras does, so that losses can be compared."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network


def _shakespeare() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return 6,000 windows of the first nine tenths of the text, and 500 of the last."""
    text = (Path(os.environ["TARMAC_DATA"]) / "tinyshakespeare" / "input.txt").read_bytes()
    _, tokens = np.unique(np.frombuffer(text, np.uint8), return_inverse=True)
    tokens = tokens.astype(np.int32)
    edge = len(tokens) * 9 // 10

    def windows(part: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        starts = np.linspace(0, len(part) - LENGTH - 1, count).astype(int)
        at = starts[:, None] + np.arange(LENGTH)
        return part[at], part[at + 1]

    return (*windows(tokens[:edge], 6000), *windows(tokens[edge:], 500))


def _images() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return 320 and 100 images of bytes: noise over a pattern of each of ten classes."""
    draw = np.random.default_rng(0)
    patterns = draw.integers(0, 128, (10, 3, 32, 32))
    y = np.arange(420) % 10
    x = (patterns[y] + draw.integers(0, 128, (420, 3, 32, 32))).astype(np.uint8)
    return x[:320], y[:320], x[320:], y[320:]


def _table() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return 20,000 and 2,000 rows of 32 numbers, and one number that follows from them."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(22000, 32)).astype(np.float32)
    y = (np.sin(x[:, :8]).sum(1) + x[:, 8] * x[:, 9]).astype(np.float32)[:, None]
    return x[:20000], y[:20000], x[20000:], y[20000:]


TASKS = {
    "gpt": Task(GPT, _shakespeare, "tokens", 12, 4, 1e-3, 0.1, True, 1.0),
    "resnet18": Task(resnet18, _images, "images", 32, 4, 0.01, 0.0, False, 0.0),
    "table": Task(perceptron, _table, "table", 128, 6, 1e-3, 0.01, True, 0.0),
}
