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
# A replica on each GPU; REPLICAS=2 tries that on a CPU.
contexts = [mx.gpu(index) for index in range(mx.context.num_gpus())]
has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")
if has_gpu and not contexts:
    sys.exit(f"was given a GPU, and sees none: tarmac check mxnet --python {sys.executable}")
contexts = contexts or [mx.cpu(index) for index in range(int(os.environ.get("REPLICAS", "1")))]

network = nn.HybridSequential()
network.add(
    nn.Conv2D(16, kernel_size=3, padding=1, activation="relu"),
    nn.MaxPool2D(2),
    nn.Conv2D(32, kernel_size=3, padding=1, activation="relu"),
    nn.MaxPool2D(2),
    nn.Dense(128, activation="relu"),
    nn.Dense(10),
)
network.initialize(mx.init.Xavier(), ctx=contexts)
# From here on the network is one compiled graph.
network.hybridize()
trainer = gluon.Trainer(network.collect_params(), "adam", {"learning_rate": 0.001})
loss = gluon.loss.SoftmaxCrossEntropyLoss()

train = batches("train", shuffle=True)
for epoch in range(int(data["epochs"])):
    started = time.perf_counter()
    totals = [mx.nd.zeros(1, ctx=context) for context in contexts]
    for images, labels in train:
        parts = [
            gluon.utils.split_and_load(array, contexts, even_split=False)
            for array in (images, labels)
        ]
        with autograd.record():
            losses = [loss(network(some), own) for some, own in zip(*parts, strict=True)]
        autograd.backward(losses)
        trainer.step(len(images))
        totals = [total + own.sum() for total, own in zip(totals, losses, strict=True)]
    mean = sum(total.asscalar() for total in totals) / len(data["train_labels"])
    print(f"epoch {epoch + 1}  loss {mean:.4f}  {time.perf_counter() - started:.1f} s")

metric = mx.metric.Accuracy()
for images, labels in batches("test", shuffle=False):
    metric.update(labels, network(images.as_in_context(contexts[0])))
_, accuracy = metric.get()

print(f"MXNet {mx.__version__} on {', '.join(map(str, network[0].weight.list_ctx()))}")
if accuracy < data["floor"]:
    sys.exit(f"test accuracy {accuracy:.4f}, expected at least {data['floor']}")
print(f"test accuracy {accuracy:.4f}")
