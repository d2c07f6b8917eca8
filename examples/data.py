"""Writes data.npz, which the examples train on: MNIST where it is here, else smaller digits.

Usage: DATASET=mnist python data.py

DATASET is mnist, digits, or not set. Images are uint8 [num_samples, side, side] from 0 to 255. With
them go the epochs that suffice on a CPU in seconds, and an accuracy that every example reaches by
then: below it something does not work.
"""

import os
import sys

import numpy as np

from tarmac import data
from tarmac.errors import TarmacError

EPOCHS = {"mnist": 2, "digits": 20}
FLOORS = {"mnist": 0.96, "digits": 0.94}

name = os.environ.get("DATASET")
if not name:
    here = {status.name for status in data.describe() if status.state == "present"}
    name = "mnist" if "mnist" in here else "digits"
if name not in EPOCHS:
    sys.exit(f"DATASET is {name!r}, expected one of {', '.join(EPOCHS)}")

try:
    dataset = data.load(name)
except TarmacError as error:
    sys.exit(str(error))
brightest = dataset.train.inputs.max()


def as_images(inputs):
    images = inputs.reshape(len(inputs), inputs.shape[1], -1)
    return (images * (255.0 / brightest)).round().astype(np.uint8)


np.savez(
    "data.npz",
    train_images=as_images(dataset.train.inputs),
    train_labels=dataset.train.targets,
    test_images=as_images(dataset.test.inputs),
    test_labels=dataset.test.targets,
    epochs=EPOCHS[name],
    floor=FLOORS[name],
)
print(f"{name}: {len(dataset.train):,} training and {len(dataset.test):,} test images")
