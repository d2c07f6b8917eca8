"""The process-wide switches of a training: what they are during it, and that they are put back."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
import torch

import tarmac
from tarmac import RequestError
from tarmac.machine import ProcessLimits, find_devices
from tarmac.training import choose_precision, make_plan, plan_to_score
from tarmac.training.planning.autotune import choose_autotune
from tarmac.training.planning.options import Options
from tarmac.training.session.modes import training_environment
from tarmac.workloads import find_workload

# A fork has imported what is slow.
PYTHON = sys.executable
CPU = find_devices("cpu")[0]
AMPERE = dataclasses.replace(CPU, type="cuda", name="A100", compute_capability=(8, 0))
TURING = dataclasses.replace(AMPERE, name="T4", compute_capability=(7, 5))

CUDA = torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn
ON_CPU = torch.backends.mkldnn.matmul, torch.backends.mkldnn.conv, torch.backends.mkldnn.rnn


def switches() -> list[str]:
    return [switch.fp32_precision for switch in (*CUDA, *ON_CPU)]


@pytest.fixture(autouse=True)
def _puts_back():
    """PyTorch's own values after a test, whatever it set."""
    before = switches()
    yield
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True
    for switch, value in zip((*CUDA, *ON_CPU), before, strict=True):
        switch.fp32_precision = value


def plan_of(precision: str = "fp32", **changes):
    plan = make_plan(find_workload("digits-mlp"), "digits-mlp", Options(devices="cpu"))
    return dataclasses.replace(plan, precision=precision, **changes)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_fp32_is_ieee_in_products_and_in_convolutions(precision):
    with training_environment(plan_of(precision), []):
        assert {switch.fp32_precision for switch in CUDA} == {"ieee"}
        assert {switch.fp32_precision for switch in ON_CPU} == {"ieee"}


def test_tf32_is_meant_for_products_and_convolutions_alike():
    with training_environment(plan_of("tf32"), []):
        assert {switch.fp32_precision for switch in CUDA} == {"tf32"}


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_the_compiler_can_read_the_switches_of_both_generations(precision):
    with training_environment(plan_of(precision), []):
        is_tf32 = precision == "tf32"
        assert torch.backends.cuda.matmul.allow_tf32 == is_tf32
        assert torch.backends.cudnn.allow_tf32 == is_tf32
        assert torch.get_float32_matmul_precision() == ("high" if is_tf32 else "highest")


def set_nothing() -> None:
    pass


def set_high() -> None:
    torch.set_float32_matmul_precision("high")


def set_medium_and_ieee_convolutions() -> None:
    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.allow_tf32 = False


def set_new_switches_alone() -> None:
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.cudnn.conv.fp32_precision = "ieee"


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize(
    "callers", [set_nothing, set_high, set_medium_and_ieee_convolutions, set_new_switches_alone]
)
def test_the_callers_switches_are_put_back(precision, callers):
    callers()
    before = switches()
    with training_environment(plan_of(precision), []):
        pass
    assert switches() == before


def test_tf32_is_refused_where_it_is_not():
    for device in (CPU, TURING):
        with pytest.raises(RequestError, match=r"which .* does not have") as caught:
            choose_precision("tf32", device, 10**12)
        assert "--precision fp32" in str(caught.value)
    assert choose_precision("tf32", AMPERE, 10**12) == ("tf32", "as requested")


@pytest.mark.parametrize(
    ("device", "run_flops", "deterministic", "autotune"),
    [
        (CPU, 1e18, False, False),
        (AMPERE, 1e14, False, False),
        (AMPERE, 1e15, False, True),
        (AMPERE, 1e18, True, False),
    ],
)
def test_cudnn_tries_algorithms_out_only_where_the_run_pays_for_it(
    device, run_flops, deterministic, autotune
):
    chosen, why = choose_autotune(device, run_flops, deterministic=deterministic)
    assert chosen == autotune
    assert why


@pytest.mark.parametrize("autotune", [True, False])
def test_cudnn_tries_algorithms_out_only_where_the_plan_says_so(autotune):
    before = torch.backends.cudnn.benchmark
    with training_environment(plan_of(autotune=autotune), []):
        assert torch.backends.cudnn.benchmark == autotune
    assert torch.backends.cudnn.benchmark == before


def test_a_deterministic_training_does_not_fill_memory_that_it_writes_anyway():
    assert torch.utils.deterministic.fill_uninitialized_memory
    with training_environment(plan_of(deterministic=True), []):
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.utils.deterministic.fill_uninitialized_memory
    assert torch.utils.deterministic.fill_uninitialized_memory


def test_a_record_says_whether_cudnn_tried_algorithms_out(tmp_path):
    run = tarmac.train("digits-mlp", epochs=1, device="cpu", output=tmp_path)
    assert run.record.configuration["autotune"] == "off"


@pytest.mark.parametrize("options", ["", ", deterministic=True"])
def test_training_imports_nothing_that_is_slow_and_not_used(tmp_path, options):
    code = f"""
import sys, tarmac
tarmac.train("digits-mlp", epochs=1, output={str(tmp_path)!r}, device="cpu"{options})
heavy = {{
    "torch._dynamo", "torch._inductor", "torch.distributed.checkpoint", "torch.distributed.tensor",
    "boto3", "optuna", "scipy", "sklearn", "sympy", "tensorboard",
}}
print(*heavy & sys.modules.keys())
"""
    done = subprocess.run([PYTHON, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


@pytest.fixture
def quota(monkeypatch):
    """Give this process a part of the cores, and PyTorch four threads."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(4)

    def give(cpus: float) -> None:
        limits = ProcessLimits(cpus, None)
        monkeypatch.setattr("tarmac.training.session.modes.read_limits", lambda: limits)

    yield give
    torch.set_num_threads(1)


def _threads_of_trainings(tmp_path, monkeypatch) -> set[int]:
    """Train, go on, score and predict in one process; return the threads that products had."""
    seen = set()
    linear = torch.nn.functional.linear

    def counted(*arguments, **options):
        seen.add(torch.get_num_threads())
        return linear(*arguments, **options)

    monkeypatch.setattr(torch.nn.functional, "linear", counted)
    run = tarmac.train("digits-mlp", epochs=1, train_size=64, output=tmp_path)
    tarmac.predict(run, tarmac.data.load("digits").test.arrays[0][:2])
    return seen


@pytest.mark.parametrize(("cpus", "threads"), [(0.2, 1), (1.0, 1), (1.5, 2), (64.0, 4)])
def test_one_process_has_as_many_threads_as_its_control_group_has_cores(
    quota, tmp_path, monkeypatch, cpus, threads
):
    quota(cpus)
    # Small steps of a training take one; scores and predictions take all.
    assert max(_threads_of_trainings(tmp_path, monkeypatch)) == threads
    # The caller's own are put back.
    assert torch.get_num_threads() == 4


def test_a_score_takes_the_threads_of_its_own_machine_not_those_of_the_training(tmp_path):
    run = tarmac.train("digits-mlp", epochs=1, train_size=64, threads=3, output=tmp_path)
    assert run.record.configuration["threads"] == 3
    plan = plan_to_score(run, find_workload("digits-mlp"))
    assert plan.threads != 3


def test_threads_that_the_user_has_set_stay(quota, tmp_path, monkeypatch):
    quota(1.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert _threads_of_trainings(tmp_path, monkeypatch) == {4}
