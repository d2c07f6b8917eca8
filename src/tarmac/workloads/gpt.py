"""The transformer of GPT-2 as in nanoGPT, shared by several workloads.

Sources: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.3;
karpathy/nanoGPT, model.py: no biases; the output layer shares the weight of the token embedding;
weights from a normal distribution of deviation 0.02, divided by ``sqrt(2 layers)`` at the end of a
residual branch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn

from tarmac.errors import RequestError

_DEVIATION = 0.02

# Patterns of parameters without weight decay: the one-dimensional weights of the layer norms.
NO_DECAY: Mapping[str, float] = {"*norm.weight": 0.0}


class GPT(nn.Module):
    """A decoder of ``num_layers`` blocks, each of causal attention and a perceptron.

    Args:
        vocabulary: Number of distinct tokens.
        length: Maximum number of tokens in a sample.
        num_layers: Number of transformer blocks.
        num_heads: Attention heads of each block; must divide ``width``.
        width: Features of the residual stream, per token.
        dropout: Dropout probability of embeddings, attention and residual branches.

    Raises:
        RequestError: The width cannot be divided by the heads.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        length: int,
        num_layers: int,
        num_heads: int,
        width: int,
        dropout: float,
    ) -> None:
        super().__init__()
        if width % num_heads:
            raise RequestError(f"width is {width}, expected a multiple of the {num_heads} heads")
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(_Block(width, num_heads, dropout) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width, bias=False)
        for name, parameter in self.named_parameters():
            if name.endswith("norm.weight"):
                continue
            ends_branch = name.endswith("out.weight")
            deviation = _DEVIATION / math.sqrt(2 * num_layers) if ends_branch else _DEVIATION
            nn.init.normal_(parameter, std=deviation)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits ``[batch, length, vocabulary]`` of the token that follows each token.

        Args:
            tokens: Token indexes, integers ``[batch, length]``.
        """
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        stream = self.dropout(self.tokens(tokens) + self.positions(positions))
        for block in self.blocks:
            stream = block(stream)
        return F.linear(self.norm(stream), self.tokens.weight)


class _Block(nn.Module):
    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, bias=False)
        self.attention = _Attention(width, num_heads, dropout)
        self.perceptron_norm = nn.LayerNorm(width, bias=False)
        self.perceptron = _Perceptron(width, dropout)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        stream = stream + self.attention(self.attention_norm(stream))
        branch: torch.Tensor = self.perceptron(self.perceptron_norm(stream))
        return stream + branch


class _Attention(nn.Module):
    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self._num_heads = num_heads
        self._dropout = dropout
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        batch, length, width = stream.shape
        shape = (batch, length, 3, self._num_heads, width // self._num_heads)
        queries, keys, values = self.queries_keys_values(stream).view(shape).permute(2, 0, 3, 1, 4)
        dropout = self._dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(
            queries, keys, values, dropout_p=dropout, is_causal=True
        )
        together = heads.transpose(1, 2).reshape(batch, length, width)
        branch: torch.Tensor = self.dropout(self.out(together))
        return branch


class _Perceptron(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, 4 * width, bias=False)
        self.out = nn.Linear(4 * width, width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        branch: torch.Tensor = self.dropout(self.out(F.gelu(self.hidden(stream))))
        return branch
