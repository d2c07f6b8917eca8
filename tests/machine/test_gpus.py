"""Which GPUs a process may give away, by what the driver says and CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import pytest

from tarmac import RequestError
from tarmac.machine import GpuInfo
from tarmac.machine.gpus import Card, visible_gpus


def gpu(uuid: str, name: str = "H100") -> GpuInfo:
    return GpuInfo(uuid, name, 2**36, is_instance=uuid.startswith("MIG-"))


ALIKE = [Card(gpu("GPU-aa1")), Card(gpu("GPU-ab2")), Card(gpu("GPU-b33"))]
PARTITIONED = [
    Card(gpu("GPU-aa1")),
    Card(gpu("GPU-ab2"), is_partitioned=True, instances=[gpu("MIG-1"), gpu("MIG-2")]),
    Card(gpu("GPU-b33"), is_partitioned=True),
]


def seen(cards, visible, *, is_by_bus=False) -> list[str]:
    return [found.uuid for found in visible_gpus(cards, visible, is_by_bus=is_by_bus)]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["GPU-aa1", "GPU-ab2", "GPU-b33"]),
        ("", []),
        ("NoDevFiles", []),
        ("-1", []),
        ("1", ["GPU-ab2"]),
        ("2,0", ["GPU-b33", "GPU-aa1"]),
        ("0, 2", ["GPU-aa1", "GPU-b33"]),
        # What CUDA does not know ends its list.
        ("0,-1,1", ["GPU-aa1"]),
        ("0,7,1", ["GPU-aa1"]),
        ("GPU-b33,GPU-aa1", ["GPU-b33", "GPU-aa1"]),
        ("GPU-b", ["GPU-b33"]),
        # Two begin so.
        ("GPU-a", []),
        ("1,1", ["GPU-ab2"]),
    ],
)
def test_only_gpus_that_cuda_would_see_are_there(visible, expected):
    assert seen(ALIKE, visible) == expected


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["GPU-aa1", "MIG-1", "MIG-2"]),
        ("MIG-2", ["MIG-2"]),
        ("1", ["MIG-1"]),
        ("GPU-ab2", ["MIG-1"]),
        ("2", []),
    ],
)
def test_of_a_partitioned_card_its_instances_are_there(visible, expected):
    assert seen(PARTITIONED, visible) == expected


def test_an_index_among_gpus_that_differ_is_refused_unless_their_order_is_said():
    cards = [Card(gpu("GPU-a", "T4")), Card(gpu("GPU-b", "H100"))]
    with pytest.raises(RequestError, match=r"names GPU 1, .* H100, T4"):
        seen(cards, "1")
    assert seen(cards, "1", is_by_bus=True) == ["GPU-b"]
    assert seen(cards, "GPU-b") == ["GPU-b"]
    assert seen(cards, None) == ["GPU-a", "GPU-b"]


@pytest.mark.parametrize("visible", [None, "1", "GPU-nowhere"])
def test_a_card_that_the_driver_cannot_describe_is_said_and_is_not_none(visible):
    cards = [Card(gpu("GPU-a")), Card(None, problem="GPU 1: GPU is lost")]
    with pytest.raises(RequestError, match="does not say which GPUs there are: GPU 1: GPU is lost"):
        seen(cards, visible)
    assert seen(cards, "0") == ["GPU-a"]
    assert seen(cards, "GPU-a") == ["GPU-a"]
    assert seen(cards, "") == []
