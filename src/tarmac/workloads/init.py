"""Weight initialisations of published recipes that differ from PyTorch's defaults."""

from __future__ import annotations

from torch import nn


def glorot_uniform_(model: nn.Module) -> nn.Module:
    """Initialise linear and convolution layers as in Keras: Glorot-uniform weights, zero biases.

    Glorot and Bengio (2010): uniform in ``+-sqrt(6 / (fan_in + fan_out))``; Keras's default for
    Dense and Conv2D since 1.2.

    Returns:
        The same model.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model
