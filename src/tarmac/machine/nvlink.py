"""The pairs of GPUs that NVLink connects, from NVIDIA's management library."""

from __future__ import annotations

import itertools
from typing import Any

import pynvml
from pydantic import BaseModel, ConfigDict

from tarmac.machine.nvml_calls import ask


class NvlinkPair(BaseModel):
    """Two GPUs that NVLink connects, according to the driver.

    Attributes:
        first: The lower of their indices.
        second: The higher of their indices.
        num_links: Number of direct links between the GPUs; 0 through switches.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: int
    second: int
    num_links: int = 0


def read_link_states(handle: Any) -> tuple[bool, ...]:
    """Return whether each NVLink of a GPU is up."""
    states = (
        ask(pynvml.nvmlDeviceGetNvLinkState, handle, link)
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS)
    )
    return tuple(map(bool, itertools.takewhile(lambda state: state is not None, states)))


def read_nvlink_pairs(num_gpus: int) -> tuple[NvlinkPair, ...]:
    """Return the pairs that NVLink connects, while `open_nvml` holds the library open.

    Args:
        num_gpus: Number of GPUs of the driver.
    """
    handles = [ask(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(num_gpus)]
    joined = [
        (first, second)
        for first, second in itertools.combinations(range(num_gpus), 2)
        if _are_joined(handles[first], handles[second])
    ]
    remotes = {first: _remotes(handles[first]) for first, _ in joined}
    buses = {
        second: _bus(ask(pynvml.nvmlDeviceGetPciInfo, handles[second])) for _, second in joined
    }
    return tuple(
        NvlinkPair(first=a, second=b, num_links=sum(bus == buses[b] for bus in remotes[a]))
        for a, b in joined
    )


def _are_joined(first: Any, second: Any) -> bool:
    if first is None or second is None:
        return False
    status = ask(pynvml.nvmlDeviceGetP2PStatus, first, second, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return bool(status == pynvml.NVML_P2P_STATUS_OK)


def _remotes(handle: Any) -> list[str]:
    """Return the remote PCI addresses of a GPU's links that are up."""
    links = [link for link, is_up in enumerate(read_link_states(handle)) if is_up]
    remotes = [ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link) for link in links]
    return [bus for bus in map(_bus, remotes) if bus is not None]


def _bus(pci: Any) -> str | None:
    return None if pci is None else str(pci.busId)
