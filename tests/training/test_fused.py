"""Whether the fused kernels compute a training's steps, and why."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from torch import nn

from tarmac import RequestError
from tarmac.kernels import why_not
from tarmac.machine import Device
from tarmac.training import find_strategy
from tarmac.training.planning.fused import choose_fused
from tarmac.training.planning.options import Options
from tarmac.workloads import Recipe, find_workload

_GPU = Device("cuda", 0, "NVIDIA H200", "GPU-1", 2**37, 2**37, True, (9, 0), 0)
_WORKLOAD = find_workload("mnist-mlp")
_CHOICES = {
    "feed": "resident",
    "precision": "bf16",
    "is_compiled": False,
    "step_flops": int(0.4e9),
    "missing": lambda: None,
}


def _choose(
    request: str = "auto",
    model: nn.Module | None = None,
    recipe: Recipe = _WORKLOAD.recipe,
    device: Device = _GPU,
    *,
    accumulate: int = 1,
    strategy: str = "single",
    **choices: Any,
) -> tuple[bool, str]:
    return choose_fused(
        Options(fused=request, accumulate=accumulate),
        _WORKLOAD.model() if model is None else model,
        recipe,
        device,
        strategy=find_strategy(strategy),
        **_CHOICES | choices,
    )


def test_a_multilayer_perceptron_on_a_gpu_is_trained_by_them():
    assert _choose() == (True, "a multilayer perceptron of 0.4 GFLOP a step on one GPU")
    assert _choose("on") == (True, "as requested")
    assert _choose("off") == (False, "as requested")


def _preprocess(inputs, *, training, dtype):
    return inputs.to(dtype)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": dataclasses.replace(_GPU, type="cpu", index=None)}, "they are for GPUs"),
        (
            {"device": dataclasses.replace(_GPU, compute_capability=(7, 5))},
            "Triton uses no matrix units of NVIDIA H200",
        ),
        ({"strategy": "towers"}, "strategy is towers"),
        ({"feed": "prefetch"}, "feed is prefetch"),
        ({"precision": "fp64"}, "precision is fp64"),
        ({"is_compiled": True}, "torch.compile is on"),
        ({"accumulate": 2}, "accumulate is 2"),
        ({"model": nn.Conv2d(1, 1, 1)}, "layer Conv2d is Conv2d"),
        ({"model": nn.Sequential(nn.Linear(4, 1000))}, "it has 1000 classes"),
        (
            {"recipe": dataclasses.replace(_WORKLOAD.recipe, preprocess=_preprocess)},
            "the preprocessing is a function of its own",
        ),
        ({"missing": lambda: "Triton is not installed"}, "Triton is not installed"),
    ],
)
def test_what_they_cannot_train_is_trained_without_them(changes, reason):
    chosen, why = _choose(**changes)
    assert not chosen
    assert why.startswith(reason)
    with pytest.raises(RequestError, match="the fused kernels cannot train this"):
        _choose("on", **changes)


def test_large_products_are_left_to_pytorch_unless_asked_for():
    assert _choose(step_flops=10**11) == (False, "100 GFLOP a step keep a GPU busy without them")
    assert _choose("on", step_flops=10**11) == (True, "as requested")


@pytest.fixture
def fresh():
    """Forget what Triton's requirements were found to be."""
    why_not.cache_clear()
    yield
    why_not.cache_clear()


@pytest.fixture
def has_triton(fresh, tmp_path, monkeypatch):
    """A machine with all that Triton needs, whatever this one has."""
    site, programs = tmp_path / "site", tmp_path / "bin"
    (site / "triton").mkdir(parents=True)
    (site / "triton" / "__init__.py").touch()
    programs.mkdir()
    (programs / "gcc").write_text("#!/bin/sh\n")
    (programs / "gcc").chmod(0o755)
    (tmp_path / "Python.h").touch()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache" / "deep"))


def test_nothing_is_missing_where_all_is_there(has_triton):
    assert why_not() is None


def test_a_missing_compiler_is_named_with_what_to_do(has_triton, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert "install gcc, or set CC" in why_not()
    why_not.cache_clear()
    monkeypatch.setenv("CC", "/nowhere/cc")
    assert "finds no C compiler" in why_not()


def test_missing_headers_are_named_with_what_brings_them(has_triton, tmp_path):
    (tmp_path / "Python.h").unlink()
    assert "apt install python3-dev" in why_not()


def test_a_cache_that_cannot_be_written_is_named_with_what_to_set(
    has_triton, tmp_path, monkeypatch
):
    # Root may write to any directory, but there is none in a file.
    in_a_file = tmp_path / "Python.h" / "cache"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(in_a_file))
    assert why_not() == (
        f"Triton keeps what it compiles in {in_a_file}, which cannot be written; set "
        "TRITON_CACHE_DIR to a directory that can"
    )


def test_the_cache_is_below_triton_home_where_that_is_set(has_triton, tmp_path, monkeypatch):
    monkeypatch.delenv("TRITON_CACHE_DIR")
    monkeypatch.setenv("TRITON_HOME", str(tmp_path))
    assert why_not() is None
    why_not.cache_clear()
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "Python.h"))
    assert f"{tmp_path}/Python.h/.triton/cache, which cannot be written" in why_not()
