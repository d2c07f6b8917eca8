"""A convolutional network on MNIST, by MXNet's Gluon.

Usage: python train.py data.npz
"""

import os
import sys
import time

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

BATCH_SIZE = 100


def batches(part, shuffle):
    images = data[part + "_images"][:, None].astype(np.float32) / 255
    dataset = gluon.data.ArrayDataset(images, data[part + "_labels"].astype(np.float32))
    return gluon.data.DataLoader(dataset, BATCH_SIZE, shuffle=shuffle)


mx.random.seed(0)
np.random.seed(0)
data = np.load(sys.argv[1])
context = mx.gpu(0) if mx.context.num_gpus() else mx.cpu()
has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")
if has_gpu and context == mx.cpu():
    sys.exit(f"was given a GPU, and sees none: tarmac check mxnet --python {sys.executable}")

network = nn.HybridSequential()
network.add(
    nn.Conv2D(16, kernel_size=3, padding=1, activation="relu"),
    nn.MaxPool2D(2),
    nn.Conv2D(32, kernel_size=3, padding=1, activation="relu"),
    nn.MaxPool2D(2),
    nn.Dense(128, activation="relu"),
    nn.Dense(10),
)
network.initialize(mx.init.Xavier(), ctx=context)
# From here on the network is one compiled graph.
network.hybridize()
trainer = gluon.Trainer(network.collect_params(), "adam", {"learning_rate": 0.001})
loss = gluon.loss.SoftmaxCrossEntropyLoss()

train = batches("train", shuffle=True)
for epoch in range(int(data["epochs"])):
    started = time.perf_counter()
    total = mx.nd.zeros(1, ctx=context)
    for images, labels in train:
        with autograd.record():
            losses = loss(network(images.as_in_context(context)), labels.as_in_context(context))
        losses.backward()
        trainer.step(len(images))
        total += losses.sum()
    mean = total.asscalar() / len(data["train_labels"])
    print(f"epoch {epoch + 1}  loss {mean:.4f}  {time.perf_counter() - started:.1f} s")

metric = mx.metric.Accuracy()
for images, labels in batches("test", shuffle=False):
    metric.update(labels, network(images.as_in_context(context)))
_, accuracy = metric.get()

print(f"MXNet {mx.__version__} on {network[0].weight.data().context}")
if accuracy < data["floor"]:
    sys.exit(f"test accuracy {accuracy:.4f}, expected at least {data['floor']}")
print(f"test accuracy {accuracy:.4f}")
