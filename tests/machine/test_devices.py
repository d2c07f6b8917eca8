"""What a user may ask of ``--devices``, on machines with and without GPUs."""

from __future__ import annotations

import dataclasses
import types

import pytest
import torch

from tarmac import RequestError
from tarmac.machine import find_devices, name_devices


@pytest.fixture
def gpus(monkeypatch):
    """Make PyTorch say that there are some GPUs; nothing is computed on them."""

    def give(count: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"Fast {index}")
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (2**30 - index, 2**30))
        monkeypatch.setattr(
            torch.cuda,
            "get_device_properties",
            lambda index: types.SimpleNamespace(
                name=f"Fast {index}", uuid=f"aaaa-{index}", major=9, minor=0
            ),
        )

    return give


def _identities(devices):
    return [dataclasses.replace(device, available_bytes=0) for device in devices]


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ("auto", "cuda:0,1,2"),
        ("all", "cuda:0,1,2"),
        ("2", "cuda:0,1"),
        ("0,2", "cuda:0,2"),
        ("2,0", "cuda:2,0"),
        ("cuda", "cuda:0"),
        ("cuda:1", "cuda:1"),
        ("cuda:0,2", "cuda:0,2"),
        ("cpu", "cpu"),
        ("cpu:2", "cpu:2"),
    ],
)
def test_devices_are_found_by_number_or_index(gpus, request_, found):
    gpus(3)
    devices = find_devices(request_)
    assert name_devices(devices) == found
    # What is free changes between two looks at a CPU.
    assert _identities(find_devices(found)) == _identities(devices)


@pytest.mark.parametrize("request_", ["auto", "all", "1"])
def test_without_a_gpu_the_cpu_is_the_device(gpus, request_):
    gpus(0)
    assert name_devices(find_devices(request_)) == "cpu"


def test_replicas_on_the_cpu_share_its_threads_and_its_memory():
    (whole,) = find_devices("cpu")
    shares = find_devices("cpu:4")
    assert len(shares) == 4
    assert {share.num_threads for share in shares} == {max(1, whole.num_threads // 4)}
    assert sum(share.available_bytes for share in shares) <= whole.memory_bytes


@pytest.mark.parametrize(
    ("count", "request_", "message"),
    [
        (
            2,
            "3",
            "devices is '3', but this machine has 2: cuda:0 (Fast 0), cuda:1 (Fast 1)",
        ),
        (2, "0,2", "devices is '0,2', but this machine has 2: cuda:0 (Fast 0), cuda:1 (Fast 1)"),
        (2, "cuda:7", "devices is 'cuda:7', but this machine has 2"),
        (2, "0,1,0", "devices is '0,1,0', which names cuda:0 twice"),
        (2, "cuda:1,1", "devices is 'cuda:1,1', which names cuda:1 twice"),
        (2, "0", "devices is '0', expected at least 1"),
        (2, "-1", "devices is '-1', expected auto, all, a number of GPUs"),
        (2, "cuda:", "devices is 'cuda:', expected auto, all"),
        (2, "tpu:1", "devices is 'tpu:1', expected auto, all"),
        (2, "cpu:0", "devices is 'cpu:0', expected cpu or cpu:NUMBER from 1"),
        (2, "cpu:many", "devices is 'cpu:many', expected cpu or cpu:NUMBER from 1"),
        (2, "", "devices is '', expected auto, all"),
        (0, "2", "devices is '2', but "),
        (0, "cuda", "devices is 'cuda', but "),
    ],
)
def test_devices_that_cannot_be_are_refused(gpus, count, request_, message):
    gpus(count)
    with pytest.raises(RequestError) as caught:
        find_devices(request_)
    assert str(caught.value).startswith(message)
