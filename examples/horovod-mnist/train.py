"""One network on MNIST, trained by two processes that Horovod starts and lets add up gradients.

Usage: python -m horovod.runner.launch -np 2 --gloo python train.py data.npz
"""

import os
import sys
import time

import horovod.mxnet as hvd
import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

GLOBAL_BATCH_SIZE = 100

hvd.init()
mx.random.seed(0)
data = np.load(sys.argv[1])
context = mx.gpu(hvd.local_rank()) if mx.context.num_gpus() else mx.cpu()
has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")
if has_gpu and context == mx.cpu():
    sys.exit(f"was given a GPU, and sees none: tarmac check horovod --python {sys.executable}")


def split(part):
    images = mx.nd.array(data[part + "_images"].astype(np.float32) / 255, ctx=context)
    return images, mx.nd.array(data[part + "_labels"].astype(np.float32), ctx=context)


network = nn.HybridSequential()
network.add(nn.Dense(512, activation="relu"), nn.Dense(512, activation="relu"), nn.Dense(10))
network.initialize(mx.init.Xavier(), ctx=context)
images, labels = split("train")
# Weights get their shapes, and so their values, at the first look at data.
network(images[:1])
network.hybridize()
parameters = network.collect_params()
hvd.broadcast_parameters(parameters, root_rank=0)
# The learning rate is that of the global batch: Horovod takes the mean over the processes.
trainer = hvd.DistributedTrainer(parameters, "adam", {"learning_rate": 0.001})
loss = gluon.loss.SoftmaxCrossEntropyLoss()

batch_size = GLOBAL_BATCH_SIZE // hvd.size()
num_steps = len(images) // GLOBAL_BATCH_SIZE
for epoch in range(int(data["epochs"])):
    started = time.perf_counter()
    # The same order in every process, of which each takes its own part.
    order = np.random.RandomState(epoch).permutation(len(images))[hvd.rank() :: hvd.size()]
    total = mx.nd.zeros(1, ctx=context)
    for step in range(num_steps):
        batch = mx.nd.array(order[step * batch_size : (step + 1) * batch_size], ctx=context)
        with autograd.record():
            losses = loss(network(images.take(batch)), labels.take(batch))
        losses.backward()
        trainer.step(batch_size)
        total += losses.mean()
    mean = hvd.allreduce(total, average=True).asscalar() / num_steps
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}  loss {mean:.4f}  {time.perf_counter() - started:.1f} s")

# What the gradients' sums are for: both end with the same weights.
weights = network[0].weight.data()
print(
    f"rank {hvd.rank()} of {hvd.size()}: MXNet {mx.__version__} on {weights.context}, "
    f"weights add up to {weights.sum().asscalar():.4f}",
    flush=True,
)

# Each process scores its own part of the test set.
images, labels = split("test")
own = slice(hvd.rank(), None, hvd.size())
guesses = network(images[own]).argmax(axis=1)
right = hvd.allreduce((guesses == labels[own]).sum(), average=False).asscalar()
accuracy = right / len(images)
if accuracy < data["floor"]:
    sys.exit(f"test accuracy {accuracy:.4f}, expected at least {data['floor']}")
if hvd.rank() == 0:
    print(f"test accuracy {accuracy:.4f}")
