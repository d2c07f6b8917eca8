"""A network of three layers on MNIST, by Chainer's updater and trainer.

The network and its recipe are those of Chainer's own MNIST example (chainer/chainer, v7.8.1,
examples/mnist/train_mnist.py): 784-1000-1000-10, ReLU, Adam, batches of 100. Fewer epochs.

    python train.py data.npz
"""

import os
import sys

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import training
from chainer.backends import cuda
from chainer.training import extensions

BATCH_SIZE = 100


class MLP(chainer.Chain):
    def __init__(self, num_inputs, num_units, num_classes):
        super().__init__()
        with self.init_scope():
            self.first = L.Linear(num_inputs, num_units)
            self.second = L.Linear(num_units, num_units)
            self.last = L.Linear(num_units, num_classes)

    def forward(self, x):
        return self.last(F.relu(self.second(F.relu(self.first(x)))))


def split(data, part):
    images = data[part + "_images"].astype(np.float32) / 255
    labels = data[part + "_labels"].astype(np.int32)
    return chainer.datasets.TupleDataset(images.reshape(len(images), -1), labels)


np.random.seed(0)
data = np.load(sys.argv[1])
# A replica on each GPU; REPLICAS=2 tries that on a CPU.
num_gpus = cuda.cupy.cuda.runtime.getDeviceCount() if cuda.available else 0
has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")
if has_gpu and not cuda.available:
    sys.exit(f"was given a GPU, and sees none: tarmac check chainer --python {sys.executable}")
names = [f"@cupy:{index}" for index in range(num_gpus)]
names = names or ["@numpy"] * int(os.environ.get("REPLICAS", "1"))
devices = [chainer.get_device(name) for name in names]
devices[0].use()

train, test = split(data, "train"), split(data, "test")
batches = chainer.iterators.SerialIterator(train, BATCH_SIZE)
model = L.Classifier(MLP(train[0][0].size, 1000, 10))
model.to_device(devices[0])
optimizer = chainer.optimizers.Adam()
optimizer.setup(model)

# In one batch: the evaluator weighs every batch alike, a short last one too.
tests = chainer.iterators.SerialIterator(test, len(test), repeat=False, shuffle=False)
# It adds the replicas' gradients up, where a mean would be one batch's; Adam's steps do not scale
# with them.
by_name = {"main": devices[0]} | {f"replica {i}": d for i, d in enumerate(devices) if i}
updater = training.updaters.ParallelUpdater(batches, optimizer, devices=by_name)
trainer = training.Trainer(updater, (int(data["epochs"]), "epoch"), out="result")
trainer.extend(extensions.Evaluator(tests, model, device=devices[0]))
trainer.extend(extensions.LogReport())
trainer.extend(
    extensions.PrintReport(["epoch", "main/loss", "validation/main/accuracy", "elapsed_time"])
)
trainer.run()

accuracy = float(trainer.observation["validation/main/accuracy"])
print(f"Chainer {chainer.__version__} on {', '.join(names)}")
if accuracy < data["floor"]:
    sys.exit(f"test accuracy {accuracy:.4f}, expected at least {data['floor']}")
print(f"test accuracy {accuracy:.4f}")
