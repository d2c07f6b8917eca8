"""A convolutional network on MNIST, by a plain PyTorch loop with the data on the device.

Usage: python train.py data.npz
"""

import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import distributed, nn
from torch.distributed.run import main as torchrun
from torch.nn.parallel import DistributedDataParallel

BATCH_SIZE = 100

# A process for each GPU, by torchrun; REPLICAS=2 tries that on a CPU.
num_ranks = torch.cuda.device_count() or int(os.environ.get("REPLICAS", "1"))
if num_ranks > 1 and "LOCAL_RANK" not in os.environ:
    sys.exit(torchrun(["--standalone", f"--nproc-per-node={num_ranks}", *sys.argv]))
rank = int(os.environ.get("LOCAL_RANK", "0"))
torch.manual_seed(0)
data = np.load(sys.argv[1])
device = torch.device(f"cuda:{rank}" if torch.cuda.is_available() else "cpu")
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
model = network
if num_ranks > 1:
    distributed.init_process_group()
    model = DistributedDataParallel(network)
optimizer = torch.optim.Adam(network.parameters(), lr=0.001)

for epoch in range(int(data["epochs"])):
    started = time.perf_counter()
    # Summed where it is computed: reading it back at every step would make a GPU wait.
    total = torch.zeros((), device=device)
    # The same order in every process, of which each takes its own part.
    for whole in torch.randperm(len(images), device=device).split(BATCH_SIZE):
        batch = whole[rank::num_ranks]
        loss = F.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(batch)
    if num_ranks > 1:
        distributed.all_reduce(total)
    mean = total.item() / len(images)
    if rank == 0:
        print(f"epoch {epoch + 1}  loss {mean:.4f}  {time.perf_counter() - started:.1f} s")

with torch.inference_mode():
    images, labels = split("test")
    right = sum(
        (network(some).argmax(dim=1) == own).sum().item()
        for some, own in zip(images.split(1000), labels.split(1000), strict=True)
    )
accuracy = right / len(images)

name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
weights = f", weights add up to {network[-1].weight.sum():.4f}" if num_ranks > 1 else ""
print(f"PyTorch {torch.__version__} on {network[0].weight.device} ({name}){weights}", flush=True)
if num_ranks > 1:
    distributed.destroy_process_group()
if accuracy < data["floor"]:
    sys.exit(f"test accuracy {accuracy:.4f}, expected at least {data['floor']}")
if rank == 0:
    print(f"test accuracy {accuracy:.4f}")
