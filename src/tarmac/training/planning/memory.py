"""Check that data and weights fit into a device's memory."""

from __future__ import annotations

from tarmac.data import Dataset
from tarmac.errors import RequestError
from tarmac.machine import Device
from tarmac.training.engine.strategy import StrategySpec
from tarmac.training.plan import FeedName


def check_memory(
    device: Device,
    dataset: Dataset,
    num_parameters: int,
    strategy: StrategySpec,
    world_size: int = 1,
    *,
    feed: FeedName = "resident",
) -> None:
    """Raise a RequestError if data and weights alone exceed a device's free memory.

    A GPU holds the training set if its feed is ``resident``. On a CPU the data are already in
    memory, unless each device has a process of its own: then each process loads its own copy.
    Parameters count four times, in fp32: values, gradients, and two averages of an optimizer. The
    size of the activations is not known beforehand.
    """
    if strategy.shards_model:
        num_parameters //= world_size
    needed = 4 * 4 * num_parameters
    if feed == "resident" and (device.type == "cuda" or strategy.process_per_device):
        needed += dataset.train.nbytes()
    if needed > device.available_bytes:
        held = f" ({device.held_by})" if device.held_by else ""
        raise RequestError(
            f"{device.torch_name} has {device.available_bytes / 2**30:.1f} GiB of memory free"
            f"{held}, and data, {num_parameters:,} parameters, gradients and optimizer take "
            f"{needed / 2**30:.1f} GiB",
            hint="Use a smaller model, less data, --feed prefetch, or other --devices.",
        )
