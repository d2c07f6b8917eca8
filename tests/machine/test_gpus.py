"""Which GPUs a process may give away, by what the driver says and CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import pytest

from tarmac import RequestError
from tarmac.machine import Gpu, MigDevice, names_nothing, visible_gpus


def gpu(index: int, uuid: str, name: str = "H100", **facts) -> Gpu:
    return Gpu(index=index, uuid=uuid, name=name, memory_bytes=2**36, **({"mig": False} | facts))


def instance(uuid: str) -> MigDevice:
    return MigDevice(uuid=uuid, name="H100 MIG 1g.10gb", memory_bytes=2**33)


ALIKE = [gpu(0, "GPU-aa1"), gpu(1, "GPU-ab2"), gpu(2, "GPU-b33")]
PARTITIONED = [
    gpu(0, "GPU-aa1"),
    gpu(1, "GPU-ab2", mig=True, mig_devices=(instance("MIG-1"), instance("MIG-2"))),
    gpu(2, "GPU-b33", mig=True),
]


def seen(gpus, visible, *, is_by_bus=False) -> list[str]:
    return [info.uuid for info in visible_gpus(gpus, visible, is_by_bus=is_by_bus)]


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
        # Drivers before 470 name an instance by its GPU; which one it is here, none tells.
        ("MIG-GPU-ab2/1/0", []),
    ],
)
def test_of_a_partitioned_card_its_instances_are_there(visible, expected):
    assert seen(PARTITIONED, visible) == expected


def test_an_index_among_gpus_that_differ_is_refused_unless_their_order_is_said():
    cards = [gpu(0, "GPU-a", "T4"), gpu(1, "GPU-b", "H100")]
    with pytest.raises(RequestError, match=r"names GPU 1, .* H100, T4"):
        seen(cards, "1")
    assert seen(cards, "1", is_by_bus=True) == ["GPU-b"]
    assert seen(cards, "GPU-b") == ["GPU-b"]
    assert seen(cards, None) == ["GPU-a", "GPU-b"]


@pytest.mark.parametrize("visible", [None, "1", "GPU-nowhere"])
def test_a_card_that_the_driver_cannot_describe_is_said_and_is_not_none(visible):
    cards = [gpu(0, "GPU-a"), Gpu(index=1, error="GPU is lost")]
    with pytest.raises(RequestError, match="does not say which GPUs there are: GPU 1: GPU is lost"):
        seen(cards, visible)
    assert seen(cards, "0") == ["GPU-a"]
    assert seen(cards, "GPU-a") == ["GPU-a"]
    assert seen(cards, "") == []


@pytest.mark.parametrize("facts", [{"mig": None}, {"memory_bytes": None}, {"uuid": None}])
def test_what_the_driver_fails_to_say_of_a_card_is_not_guessed(facts):
    card = gpu(0, "GPU-a").model_copy(update=facts)
    with pytest.raises(RequestError, match="does not say which GPUs there are: GPU 0: "):
        seen([card], None)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("0", False),
        ("0,2", False),
        ("GPU-a", False),
        ("MIG-2", False),
        ("MIG-GPU-ab2/1/0", False),
        ("MIG-GPU-b33/1/0", True),
        ("", True),
        ("-1", True),
        ("0,3", True),
        ("GPU-c", True),
        ("MIG-3", True),
    ],
)
def test_a_name_that_no_gpu_here_has_is_known(visible, expected):
    assert names_nothing(PARTITIONED, visible) is expected
