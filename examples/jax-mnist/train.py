"""A network of three layers on MNIST, in plain JAX: an epoch is one compiled call.

Usage: python train.py data.npz
"""

import itertools
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# Each GPU takes its part of a batch; REPLICAS=2 tries that on a CPU.
jax.config.update("jax_num_cpu_devices", int(os.environ.get("REPLICAS", "1")))
MESH = Mesh(jax.devices(), ("batch",))
EVERYWHERE, BY_SAMPLE = (NamedSharding(MESH, PartitionSpec(*axes)) for axes in ((), ("batch",)))
BATCH_SIZE = 100 // jax.device_count() * jax.device_count()
LEARNING_RATE, MOMENTUM = 0.05, 0.9


def make_parameters(key, sizes):
    parameters = []
    for num_in, num_out in itertools.pairwise(sizes):
        key, own = jax.random.split(key)
        weights = jax.random.normal(own, (num_in, num_out)) * (2 / num_in) ** 0.5
        parameters.append((weights, jnp.zeros(num_out)))
    return parameters


def logits(parameters, images):
    x = images.reshape(len(images), -1) / 255
    for weights, bias in parameters[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    weights, bias = parameters[-1]
    return x @ weights + bias


def loss(parameters, images, labels):
    chosen = jax.nn.log_softmax(logits(parameters, images))[jnp.arange(len(labels)), labels]
    return -chosen.mean()


@jax.jit
def train_epoch(parameters, velocities, images, labels, key):
    """Go once through the samples in a new order; leave out the last ones that fill no batch."""
    num_batches = len(images) // BATCH_SIZE
    order = jax.random.permutation(key, len(images))[: num_batches * BATCH_SIZE]

    def step(state, batch):
        parameters, velocities = state
        batch = jax.lax.with_sharding_constraint(batch, BY_SAMPLE)
        value, gradients = jax.value_and_grad(loss)(parameters, images[batch], labels[batch])
        velocities = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocities, gradients)
        parameters = jax.tree.map(lambda p, v: p - LEARNING_RATE * v, parameters, velocities)
        return (parameters, velocities), value

    batches = order.reshape(num_batches, BATCH_SIZE)
    (parameters, velocities), losses = jax.lax.scan(step, (parameters, velocities), batches)
    return parameters, velocities, losses.mean()


@jax.jit
def accuracy_on(parameters, images, labels):
    return (logits(parameters, images).argmax(axis=1) == labels).mean()


has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")
if has_gpu and jax.default_backend() == "cpu":
    sys.exit(f"was given a GPU, and sees none: tarmac check jax --python {sys.executable}")
data = np.load(sys.argv[1])
images, labels, test_images, test_labels = (
    jax.device_put(data[name], EVERYWHERE)
    for name in ("train_images", "train_labels", "test_images", "test_labels")
)
key = jax.random.key(0)
parameters = jax.device_put(make_parameters(key, (images[0].size, 512, 512, 10)), EVERYWHERE)
velocities = jax.tree.map(jnp.zeros_like, parameters)
for epoch in range(int(data["epochs"])):
    started = time.perf_counter()
    own_key = jax.random.fold_in(key, epoch)
    parameters, velocities, mean = train_epoch(parameters, velocities, images, labels, own_key)
    print(f"epoch {epoch + 1}  loss {mean:.4f}  {time.perf_counter() - started:.1f} s")

devices = sorted(parameters[0][0].devices(), key=lambda device: device.id)
names = ", ".join(f"{device.platform}:{device.id}" for device in devices)
print(f"JAX {jax.__version__} on {names} ({devices[0].device_kind})")
accuracy = float(accuracy_on(parameters, test_images, test_labels))
if accuracy < data["floor"]:
    sys.exit(f"test accuracy {accuracy:.4f}, expected at least {data['floor']}")
print(f"test accuracy {accuracy:.4f}")
