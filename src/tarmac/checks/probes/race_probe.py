"""Trains one network with PyTorch on the CPU and each GPU for the same time, and counts images.

    python race_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for the arguments and the result. TARMAC_PROBE_RACE_S is the training time of each
device, in seconds.
"""

import os
import time

from harness import run

BATCH_SIZE = 256
FEWEST_STEPS = 3


def network(torch):
    """Return the network of Keras's example for MNIST (keras-team/keras, mnist_cnn.py)."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12 * 12 * 64, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def train(probe, torch, device, seconds):
    on_gpu = device.type != "cpu"
    entry = probe.device(str(device), on_gpu)
    if on_gpu:
        entry["chip"] = torch.cuda.get_device_name(device)
    probe.stage("training on %s" % device)
    # Drawn on the CPU, so that all devices have the same numbers.
    torch.manual_seed(0)
    model = network(torch).to(device)
    images = torch.randn(BATCH_SIZE, 1, 28, 28).to(device)
    labels = torch.randint(0, 10, (BATCH_SIZE,)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def steps(count):
        for _ in range(count):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        # Reading the loss waits for a GPU, whose kernels run asynchronously.
        return float(loss.detach())

    entry["first_loss"] = steps(1)
    steps(FEWEST_STEPS)
    # Several steps between two readings of the clock keep a GPU busy.
    at_once = 20 if on_gpu else 1
    done, start = 0, time.perf_counter()
    while done < FEWEST_STEPS or time.perf_counter() - start < seconds:
        steps(at_once)
        done += at_once
    entry["images_per_s"] = done * BATCH_SIZE / (time.perf_counter() - start)


def main(probe):
    if probe.lacks("torch"):
        return
    with probe.importing():
        import torch

    probe.result["version"] = torch.__version__
    probe.result["threads"] = torch.get_num_threads()
    seconds = float(os.environ["TARMAC_PROBE_RACE_S"])
    names = ["cuda:%d" % index for index in range(torch.cuda.device_count())]
    for name in ["cpu"] + [name for name in names if probe.wants(name)]:
        train(probe, torch, torch.device(name), seconds)
    probe.stage("done")


if __name__ == "__main__":
    run("race", main)
