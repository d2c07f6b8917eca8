"""A convolutional network on MNIST, by a plain PyTorch loop with the data on the device.

Usage: python train.py data.npz
"""

import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BATCH_SIZE = 100

torch.manual_seed(0)
data = np.load(sys.argv[1])
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")
if has_gpu and device.type == "cpu":
    sys.exit(f"was given a GPU, and sees none: tarmac check torch --python {sys.executable}")


def split(part):
    images = torch.from_numpy(data[part + "_images"]).to(device)
    return images[:, None].float() / 255, torch.from_numpy(data[part + "_labels"]).to(device)


images, labels = split("train")
side = images.shape[-1] // 4
network = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(32 * side * side, 128),
    nn.ReLU(),
    nn.Linear(128, 10),
).to(device)
optimizer = torch.optim.Adam(network.parameters(), lr=0.001)

for epoch in range(int(data["epochs"])):
    started = time.perf_counter()
    # Summed where it is computed: reading it back at every step would make a GPU wait.
    total = torch.zeros((), device=device)
    for batch in torch.randperm(len(images), device=device).split(BATCH_SIZE):
        loss = F.cross_entropy(network(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(batch)
    mean = total.item() / len(images)
    print(f"epoch {epoch + 1}  loss {mean:.4f}  {time.perf_counter() - started:.1f} s")

with torch.inference_mode():
    images, labels = split("test")
    right = sum(
        (network(some).argmax(dim=1) == own).sum().item()
        for some, own in zip(images.split(1000), labels.split(1000), strict=True)
    )
accuracy = right / len(images)

name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
print(f"PyTorch {torch.__version__} on {network[0].weight.device} ({name})")
if accuracy < data["floor"]:
    sys.exit(f"test accuracy {accuracy:.4f}, expected at least {data['floor']}")
print(f"test accuracy {accuracy:.4f}")
