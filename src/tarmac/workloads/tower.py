"""The network of TensorFlow's multi-GPU tutorial, for MNIST and for CIFAR-10.

conv1 5x5, ReLU, pool1, norm1, conv2 5x5, ReLU, norm2, pool2, local3, local4, softmax_linear;
weights from normals truncated at two standard deviations. Source of layers, deviations and biases:
tensorflow/models, tutorials/image/cifar10/cifar10.py (`inference`).
"""

from __future__ import annotations

import dataclasses

from torch import nn

from tarmac.workloads.layers import LocalResponseNorm


@dataclasses.dataclass(frozen=True, kw_only=True)
class TowerShape:
    """The sizes of the tutorial's network, which differ between CIFAR-10 and MNIST.

    Attributes:
        in_channels: Channels of the image: 1 for MNIST, 3 for CIFAR-10.
        conv1: Output channels of the first convolution.
        conv2: Output channels of the second convolution.
        pool: Size of the pooling window, in pixels. The stride is 2.
        flat: Number of input features of local3.
        local3: Units of the first fully connected layer.
        local4: Units of the second fully connected layer.
    """

    in_channels: int
    conv1: int
    conv2: int
    pool: int
    flat: int
    local3: int
    local4: int


def build_tower(shape: TowerShape) -> nn.Sequential:
    """Build the network for square images ``[batch, (channels,) height, width]``."""
    network = nn.Sequential()
    if shape.in_channels == 1:
        network.add_module("channel", nn.Unflatten(1, (1, -1)))
    network.add_module("conv1", nn.Conv2d(shape.in_channels, shape.conv1, 5, padding=2))
    network.add_module("relu1", nn.ReLU())
    # `ceil_mode` matches TensorFlow's SAME padding, which pads only the far edge.
    network.add_module("pool1", nn.MaxPool2d(shape.pool, 2, ceil_mode=True))
    network.add_module("norm1", _norm(shape.conv1))
    network.add_module("conv2", nn.Conv2d(shape.conv1, shape.conv2, 5, padding=2))
    network.add_module("relu2", nn.ReLU())
    network.add_module("norm2", _norm(shape.conv2))
    network.add_module("pool2", nn.MaxPool2d(shape.pool, 2, ceil_mode=True))
    network.add_module("flatten", nn.Flatten())
    network.add_module("local3", nn.Linear(shape.flat, shape.local3))
    network.add_module("relu3", nn.ReLU())
    network.add_module("local4", nn.Linear(shape.local3, shape.local4))
    network.add_module("relu4", nn.ReLU())
    network.add_module("softmax_linear", nn.Linear(shape.local4, 10))
    std_and_bias = {
        "conv1": (0.05, 0.0),
        "conv2": (0.05, 0.1),
        "local3": (0.04, 0.1),
        "local4": (0.04, 0.1),
        "softmax_linear": (1 / 192, 0.0),
    }
    for name, (std, bias) in std_and_bias.items():
        layer = network.get_submodule(name)
        nn.init.trunc_normal_(layer.get_parameter("weight"), std=std, a=-2 * std, b=2 * std)
        nn.init.constant_(layer.get_parameter("bias"), bias)
    return network


def _norm(num_channels: int) -> LocalResponseNorm:
    # Same as tf.nn.lrn(depth_radius=4, bias=1, alpha=0.001/9, beta=0.75): its alpha is per element.
    return LocalResponseNorm(num_channels, size=9, alpha=0.001, k=1.0)
