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
    def __init__(self, num_units, num_classes):
        super().__init__()
        with self.init_scope():
            # None: as many inputs as the first batch has.
            self.first = L.Linear(None, num_units)
            self.second = L.Linear(None, num_units)
            self.last = L.Linear(None, num_classes)

    def forward(self, x):
        return self.last(F.relu(self.second(F.relu(self.first(x)))))


def split(data, part):
    images = data[part + "_images"].astype(np.float32) / 255
    labels = data[part + "_labels"].astype(np.int32)
    return chainer.datasets.TupleDataset(images.reshape(len(images), -1), labels)


np.random.seed(0)
data = np.load(sys.argv[1])
device = chainer.get_device("@cupy:0" if cuda.available else "@numpy")
has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")
if has_gpu and not cuda.available:
    sys.exit(f"was given a GPU, and sees none: tarmac check chainer --python {sys.executable}")
device.use()

model = L.Classifier(MLP(1000, 10))
model.to_device(device)
optimizer = chainer.optimizers.Adam()
optimizer.setup(model)

batches = chainer.iterators.SerialIterator(split(data, "train"), BATCH_SIZE)
test = split(data, "test")
# In one batch: the evaluator weighs every batch alike, a short last one too.
tests = chainer.iterators.SerialIterator(test, len(test), repeat=False, shuffle=False)
updater = training.updaters.StandardUpdater(batches, optimizer, device=device)
trainer = training.Trainer(updater, (int(data["epochs"]), "epoch"), out="result")
trainer.extend(extensions.Evaluator(tests, model, device=device))
trainer.extend(extensions.LogReport())
trainer.extend(
    extensions.PrintReport(["epoch", "main/loss", "validation/main/accuracy", "elapsed_time"])
)
trainer.run()

accuracy = float(trainer.observation["validation/main/accuracy"])
print(f"Chainer {chainer.__version__} on {model.predictor.last.W.device}")
if accuracy < data["floor"]:
    sys.exit(f"test accuracy {accuracy:.4f}, expected at least {data['floor']}")
print(f"test accuracy {accuracy:.4f}")
