"""What keeps a PyTorch from computing on a GPU, decided from what driver and build say."""

from __future__ import annotations

import pytest

from tarmac.machine import (
    CudaBuild,
    Gpu,
    GpuProcess,
    MigDevice,
    find_obstacle,
    name_holders,
    why_hidden,
)

BUILD = CudaBuild("2.13.0", "13.0", ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"))
H200 = Gpu(index=0, name="NVIDIA H200", uuid="GPU-7d3c", capability=(9, 0), mig=False)
OTHER = GpuProcess(pid=7, name="python", memory_bytes=2**33)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, None),
        ({"processes": (OTHER,)}, None),
        ({"compute_mode": "exclusive process"}, None),
        (
            {"compute_mode": "exclusive process", "processes": (OTHER,)},
            "NVIDIA H200 is in compute mode EXCLUSIVE_PROCESS, and python (7) holds 8.0 GiB",
        ),
        ({"compute_mode": "prohibited"}, "NVIDIA H200 is in compute mode PROHIBITED"),
        ({"capability": (7, 0)}, "NVIDIA H200 is sm_70, and PyTorch 2.13.0 (CUDA 13.0) has code"),
        ({"error": "GPU is lost"}, "NVIDIA H200 does not answer: GPU is lost"),
    ],
)
def test_what_keeps_a_gpu_from_being_computed_on_is_said(facts, text):
    obstacle = find_obstacle(H200.model_copy(update=facts), BUILD)
    assert (obstacle is None) is (text is None)
    if obstacle is not None and text is not None:
        assert obstacle.text.startswith(text)
        assert obstacle.hint


def test_ranks_of_one_training_do_not_keep_each_other_from_exclusive_gpus():
    gpu = H200.model_copy(update={"compute_mode": "exclusive process", "processes": (OTHER,)})
    assert find_obstacle(gpu, BUILD, shares=True) is None


def test_all_who_hold_memory_are_named():
    unknown = GpuProcess(pid=9, name=None, memory_bytes=None)
    gpu = H200.model_copy(update={"processes": (OTHER, unknown)})
    assert name_holders(gpu) == "python (7) holds 8.0 GiB, process 9 holds it"
    assert name_holders(H200) == ""


@pytest.mark.parametrize("visible", ["3", "0,7", "GPU-none", "garbage", "MIG-9", "-1", ""])
def test_a_variable_that_names_no_gpu_is_said_with_those_that_are_here(visible):
    hidden = why_hidden((H200,), visible)
    assert hidden is not None
    assert hidden.text.startswith("CUDA_VISIBLE_DEVICES is ")
    assert hidden.hint == "Unset it, or name some of: 0 (GPU-7d3c)"


@pytest.mark.parametrize("visible", [None, "0", "GPU-7d"])
def test_a_variable_that_names_gpus_hides_none_by_mistake(visible):
    assert why_hidden((H200,), visible) is None
    assert why_hidden((), "3") is None


def test_an_instance_is_named_by_what_the_variable_takes():
    parts = (MigDevice(uuid="MIG-1"), MigDevice(uuid="MIG-2"))
    hidden = why_hidden((H200.model_copy(update={"mig": True, "mig_devices": parts}),), "MIG-3")
    assert hidden is not None
    assert hidden.hint.endswith("0 (GPU-7d3c), MIG-1, MIG-2")
