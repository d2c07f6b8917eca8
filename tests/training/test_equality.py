"""The proof that strategies, replicas, accumulation and feeds make the same training."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tarmac
from tarmac.runs import Run
from tarmac.testing import strategies
from tarmac.testing.strategies import WORKLOADS, Case, assert_close, weights_of
from waiting import limit_s


def torchrun(num_ranks: int, output: Path, strategy: str) -> None:
    script = Path(__file__).with_name("parallel_cases.py")
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    done = subprocess.run(
        [sys.executable, "-m", *command, script, output, strategy],
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s(200),
    )
    assert done.returncode == 0, done.stderr


# Three share no batch evenly; what other numbers do besides takes 7 s of CPU each.
_OTHERS = [pytest.param(number, marks=pytest.mark.nightly) for number in (1, 2, 4)]


@pytest.mark.parametrize("num_ranks", [3, *_OTHERS])
def test_ddp_makes_the_same_weights_as_one_device(tmp_path, num_ranks):
    torchrun(num_ranks, tmp_path / "ddp", "ddp")

    def train(case: Case) -> Run:
        return Run.open(next((tmp_path / "ddp" / case.name).iterdir()))

    for check in (*strategies.CHECKS, strategies.check_synchronised_normalisation):
        check(train, num_ranks, tmp_path)
    # Running statistics, which one device takes otherwise, are the same by both strategies.
    towers = strategies.trainer("towers", num_ranks, tmp_path)
    for case in strategies.LOCAL_NORM:
        tolerance = {"fp64": 1e-12, "fp32": 5e-5}[case.precision]
        assert_close(weights_of(towers(case)), weights_of(train(case)), tolerance, case.name)


@pytest.mark.parametrize("num_ranks", [3, *_OTHERS[1:]])
def test_fsdp_makes_the_same_weights_as_one_device(tmp_path, num_ranks):
    torchrun(num_ranks, tmp_path / "fsdp", "fsdp")

    def train(case: Case) -> Run:
        return Run.open(next((tmp_path / "fsdp" / case.name).iterdir()))

    for check in (*strategies.CHECKS, strategies.check_synchronised_normalisation):
        check(train, num_ranks, tmp_path)


@pytest.mark.parametrize("num_replicas", [1, 2, 3, 4])
@pytest.mark.parametrize("check", strategies.CHECKS)
def test_towers_make_the_same_weights_as_one_device(tmp_path, check, num_replicas):
    check(strategies.trainer("towers", num_replicas, tmp_path), num_replicas, tmp_path)


@pytest.mark.parametrize(
    ("strategy", "num_replicas"), [("single", 1), ("ddp", 2), ("fsdp", 2), ("towers", 2)]
)
@pytest.mark.parametrize(
    "check", [strategies.check_replicas_draw_different_masks, strategies.check_resume]
)
def test_every_strategy_draws_and_resumes_by_the_seed(tmp_path, check, strategy, num_replicas):
    check(strategy, num_replicas, tmp_path)


def test_the_proof_would_see_a_sample_that_is_left_out(tmp_path):
    case = Case("mlp", "fp64")
    whole = weights_of(case.train(tmp_path))
    cut = weights_of(case.train(tmp_path, train_size=49))
    assert any(
        (value - cut[name]).abs().max() > 1e6 * 1e-13 * value.abs().max()
        for name, value in whole.items()
    )


def test_replicas_draw_dropout_masks_of_their_own(tmp_path):
    masks = {}

    class Spy(torch.nn.Dropout):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            dropped = super().forward(inputs)
            if self.training:
                masks.setdefault(id(self), dropped.detach() == 0)
            return dropped

    def model() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Flatten(), Spy(0.5), torch.nn.Linear(64, 4))

    spied = WORKLOADS["mlp"].__class__(
        name="spied",
        summary="",
        dataset=WORKLOADS["mlp"].dataset,
        model=model,
        recipe=WORKLOADS["mlp"].recipe,
    )
    tarmac.train(spied, epochs=1, output=tmp_path, devices="cpu:2", strategy="towers")
    first, second = masks.values()
    assert not torch.equal(first, second)


@pytest.mark.parametrize("options", [{}, {"devices": "cpu:2", "strategy": "towers"}])
def test_every_feed_makes_the_same_bits(tmp_path, options):
    case = Case("cnn", "fp32", accumulate=2)
    made = [
        weights_of(case.train(tmp_path, feed=feed, **options))
        for feed in ("resident", "prefetch", "direct")
    ]
    for ours in made[1:]:
        assert all(torch.equal(ours[name], value) for name, value in made[0].items())


@pytest.mark.gpu
@pytest.mark.parametrize("strategy", ["single", "towers", "ddp"])
@pytest.mark.parametrize("feed", ["resident", "prefetch", "direct"])
@pytest.mark.parametrize("model", ["mlp", "norm"])
def test_a_gpu_makes_the_same_weights_as_the_cpu(tmp_path, strategy, feed, model):
    workload = f"{strategies.__file__}:{model}_workload"
    options = {"precision": "fp64", "train_size": 62, "output": tmp_path}
    expected = weights_of(tarmac.train(workload, devices="cpu", **options))
    run = tarmac.train(workload, devices="cuda:0", strategy=strategy, feed=feed, **options)
    assert run.record.parallel.backend == ("nccl" if strategy == "ddp" else "none")
    tolerance = 1e-12 if model == "mlp" else 1e-10
    assert_close(weights_of(run), expected, tolerance, f"{strategy} {feed}")


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_any_gpu_and_several_make_the_same_weights_as_the_first(tmp_path):
    for precision, tolerance in (("fp32", 1e-5), ("fp64", 1e-12)):
        case = Case("cnn", precision)
        expected = weights_of(case.train(tmp_path, devices="cuda:0"))
        for options in ({"devices": "cuda:1"}, {"devices": "2", "strategy": "towers"}):
            ours = weights_of(case.train(tmp_path, **options))
            assert_close(ours, expected, tolerance, f"{precision} {options}")


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_replicas_on_gpus_draw_from_seeds_of_their_own(tmp_path):
    seeds = {}

    class Spy(torch.nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            # The plan tries the model on the CPU first.
            if inputs.is_cuda:
                generator = torch.cuda.default_generators[inputs.device.index]
                seeds[inputs.device] = generator.initial_seed()
            return super().forward(inputs)

    spied = dataclasses.replace(
        WORKLOADS["mlp"],
        model=lambda: torch.nn.Sequential(torch.nn.Flatten(), Spy(64, 4)),
        name="spied",
    )
    tarmac.train(spied, epochs=1, output=tmp_path, devices="2", strategy="towers")
    assert len(set(seeds.values())) == len(seeds) == 2
