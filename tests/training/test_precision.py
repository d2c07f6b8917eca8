"""Which precision a training takes by itself, and what a CPU is measured for."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch

from tarmac import RequestError
from tarmac.machine import find_devices
from tarmac.training import choose_precision
from tarmac.training.planning.products import bf16_speedup, measure_bf16_speedup

CPU = find_devices("cpu")[0]
GPU = dataclasses.replace(CPU, type="cuda", name="GPU")


def refuse(_device) -> float:
    raise AssertionError("was measured")


@pytest.mark.parametrize(
    ("step_flops", "speedup", "precision"),
    [
        (1e9, 2.5, "bf16"),  # an AMX or AVX512_BF16 machine, mnist-mlp
        (1e9, 0.6, "fp32"),  # emulated
        (1e9, 1.0, "fp32"),
        (1e9, 1.04, "fp32"),
        (64e6, 2.4, "fp32"),
        (72e6, 2.4, "bf16"),
        (48e6, 7.0, "bf16"),
    ],
)
def test_a_cpu_takes_bf16_where_its_products_save_more_than_the_casts_cost(
    step_flops, speedup, precision
):
    chosen, why = choose_precision("auto", CPU, int(step_flops), lambda _device: speedup)
    assert chosen == precision
    assert f"{speedup:.2f} times" in why


def test_nothing_is_measured_where_it_could_not_decide():
    chosen, why = choose_precision("auto", CPU, 30_000_000, refuse)
    assert chosen == "fp32"
    assert why == "30 MFLOP a step are too few for bf16 to be faster"
    for asked in ("fp32", "bf16", "fp16", "fp64"):
        assert choose_precision(asked, CPU, 10**12, refuse) == (asked, "as requested")


@pytest.mark.parametrize(("has_units", "precision"), [(True, "bf16"), (False, "fp32")])
def test_a_gpu_is_taken_at_its_word(has_units, precision):
    device = dataclasses.replace(GPU, bf16_matrix_units=has_units)
    assert choose_precision("auto", device, 10**12, refuse)[0] == precision


@pytest.mark.parametrize(
    ("name", "capability", "has_units"),
    [
        ("Tesla V100-SXM2-16GB", (7, 0), True),
        ("Tesla T4", (7, 5), True),
        ("NVIDIA GeForce RTX 2080 Ti", (7, 5), True),
        ("NVIDIA GeForce GTX 1660 Ti", (7, 5), False),
        ("NVIDIA T1000", (7, 5), False),
        ("Tesla P100-PCIE-16GB", (6, 0), False),
    ],
)
def test_a_gpu_with_matrix_units_for_fp16_alone_is_told_what_uses_them(name, capability, has_units):
    gpu = dataclasses.replace(
        GPU, name=name, compute_capability=capability, bf16_matrix_units=False
    )
    chosen, why = choose_precision("auto", gpu, 10**12, refuse)
    assert chosen == "fp32"
    assert why.startswith(f"{name} has no matrix units for bf16")
    assert why.endswith("--precision fp16 uses them") is has_units


T4 = {"name": "Tesla T4", "compute_capability": (7, 5)}
V100 = {"name": "Tesla V100-SXM2-16GB", "compute_capability": (7, 0)}


@pytest.mark.parametrize(
    ("gpu", "step_flops", "num_parameters", "precision"),
    [
        # 6 FLOP for each parameter and sample: mnist-mlp by 128, gpt2-124m by 8 windows of 1024.
        (T4, 514e6, 669_706, "fp32"),
        (T4, 6.1e12, 124e6, "fp16"),
        (V100, 6.1e12, 124e6, "fp16"),
        # A convolution does more with each parameter.
        (T4, 6 * 40e6 * 128, 1_200_000, "fp16"),
        ({"name": "NVIDIA GeForce RTX 2080 Ti", "compute_capability": (7, 5)}, 1e13, 1e6, "fp32"),
        ({"name": "NVIDIA T1000", "compute_capability": (7, 5)}, 1e13, 1e6, "fp32"),
    ],
)
def test_a_gpu_without_bf16_takes_fp16_where_it_saves_more_than_it_costs(
    gpu, step_flops, num_parameters, precision
):
    device = dataclasses.replace(GPU, bf16_matrix_units=False, memory_bytes=16 * 2**30, **gpu)
    chosen, why = choose_precision(
        "auto", device, int(step_flops), refuse, num_parameters=int(num_parameters)
    )
    assert chosen == precision, why
    assert ("--precision fp16" in why) is (precision == "fp32" and device.fp16_matrix_units)


def test_an_unknown_precision_is_refused():
    with pytest.raises(RequestError, match="expected auto, fp32, tf32, bf16, fp16 or fp64"):
        choose_precision("half", CPU, 1, refuse)


def test_a_cpu_is_measured_once_and_the_answer_stays(tmp_path):
    first = bf16_speedup(CPU, tmp_path)
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["bf16_speedup"] == first
    file.write_text(json.dumps({"bf16_speedup": 3.25}))
    assert bf16_speedup(CPU, tmp_path) == 3.25


def test_another_processor_is_measured_for_itself(tmp_path):
    bf16_speedup(CPU, tmp_path)
    bf16_speedup(dataclasses.replace(CPU, name="another"), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "damaged", ["", "[]", "{}", '{"bf16_speedup": NaN}', '{"bf16_speedup": 0}']
)
def test_a_damaged_answer_is_measured_again(tmp_path, damaged):
    bf16_speedup(CPU, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(damaged)
    found = bf16_speedup(CPU, tmp_path)
    assert math.isfinite(found)
    assert json.loads(file.read_text())["bf16_speedup"] == found


def test_a_cache_that_cannot_be_written_is_only_slower(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert bf16_speedup(CPU, tmp_path / "file" / "products") > 0


def test_measuring_leaves_the_number_of_threads_alone():
    torch.set_num_threads(2)
    assert measure_bf16_speedup() > 0
    assert torch.get_num_threads() == 2
