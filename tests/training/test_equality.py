"""The proof that strategies, replicas, accumulation and feeds make the same training.

Tolerances are relative to the largest weight of each tensor, after six steps: some tens of units in
the last place, and more where batch normalisation divides by what two samples differ in.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from parallel_cases import LOCAL_NORM, PLAIN, SYNC_NORM, WORKLOADS, Case
from safetensors.torch import load_file

import tarmac

TOLERANCE = {"fp64": 1e-13, "fp32": 1e-6}
NORM_TOLERANCE = {"fp64": 1e-12, "fp32": 5e-5}
TWO_SAMPLES_TOLERANCE = 1e-10


def torchrun(num_ranks: int, output: Path) -> None:
    script = Path(__file__).with_name("parallel_cases.py")
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    done = subprocess.run(
        [sys.executable, "-m", *command, script, output],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr


def weights(run: tarmac.runs.Run) -> dict[str, torch.Tensor]:
    return load_file(run.model)


def assert_close(ours, theirs, tolerance: float, what: str, *, buffers: bool = True) -> None:
    for name, value in theirs.items():
        if buffers or not name.endswith(("_mean", "_var", "_tracked")):
            scale = value.abs().max().clamp_min(1e-9)
            error = ((ours[name] - value).abs().max() / scale).item()
            assert error <= tolerance, f"{what}: {name} differs by {error:.1e}"


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_every_strategy_makes_the_same_weights_as_one_device(tmp_path, num_ranks):
    torchrun(num_ranks, tmp_path / "ddp")

    def ddp(case: Case) -> dict[str, torch.Tensor]:
        return load_file(next((tmp_path / "ddp" / case.name).iterdir()) / "model.safetensors")

    def single(case: Case, **options) -> dict[str, torch.Tensor]:
        return weights(case.train(tmp_path / "single", **options))

    def towers(case: Case) -> dict[str, torch.Tensor]:
        options = {"strategy": "towers", "devices": f"cpu:{num_ranks}"}
        return weights(case.train(tmp_path / "towers", **options))

    for case in PLAIN:
        expected = single(case, accumulate=1)
        for name, ours in (("ddp", ddp(case)), ("towers", towers(case))):
            assert_close(ours, expected, TOLERANCE[case.precision], f"{name} {case.name}")
    for case in LOCAL_NORM:
        # One device normalises by the same parts of a batch where it accumulates over them; its
        # running statistics take the parts one after another, those of replicas their mean.
        expected = single(case, accumulate=num_ranks)
        tolerance = NORM_TOLERANCE[case.precision]
        ours = ddp(case)
        assert_close(ours, expected, tolerance, f"ddp {case.name}", buffers=False)
        assert_close(towers(case), ours, tolerance, f"towers {case.name}")
    for case in SYNC_NORM:
        tolerance = NORM_TOLERANCE[case.precision]
        if case.train_size == 50:
            tolerance = TWO_SAMPLES_TOLERANCE
        expected = single(case, sync_batchnorm=False)
        assert_close(ddp(case), expected, tolerance, f"ddp {case.name}")


def test_the_proof_would_see_a_sample_that_is_left_out(tmp_path):
    case = Case("mlp", "fp64")
    whole = weights(case.train(tmp_path))
    cut = weights(case.train(tmp_path, train_size=49))
    assert any(
        (value - cut[name]).abs().max() > 1e6 * TOLERANCE["fp64"] * value.abs().max()
        for name, value in whole.items()
    )


@pytest.mark.parametrize("strategy", ["ddp", "towers"])
def test_dropout_differs_between_replicas_and_follows_the_seed(tmp_path, strategy):
    def train(seed: int, **options) -> dict[str, torch.Tensor]:
        asked = {"seed": seed, "settings": {"dropout": 0.5}, "precision": "fp64", "train_size": 50}
        workload = f"{Path(__file__).with_name('parallel_cases.py')}:mlp_workload"
        return weights(tarmac.train(workload, output=tmp_path, **(asked | options)))

    options = {"devices": "cpu:2", "strategy": strategy}
    first, again, other = train(0, **options), train(0, **options), train(1, **options)
    single = train(0)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    # Were both replicas to draw the same masks, each half of a batch would get that of one device.
    assert not all(torch.allclose(first[name], single[name]) for name in first)


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
        weights(case.train(tmp_path, feed=feed, **options))
        for feed in ("resident", "prefetch", "direct")
    ]
    for ours in made[1:]:
        assert all(torch.equal(ours[name], value) for name, value in made[0].items())


@pytest.mark.gpu
@pytest.mark.parametrize("strategy", ["single", "towers", "ddp"])
@pytest.mark.parametrize("feed", ["resident", "prefetch", "direct"])
@pytest.mark.parametrize("model", ["mlp", "norm"])
def test_a_gpu_makes_the_same_weights_as_the_cpu(tmp_path, strategy, feed, model):
    workload = f"{Path(__file__).with_name('parallel_cases.py')}:{model}_workload"
    options = {"precision": "fp64", "train_size": 62, "output": tmp_path}
    expected = weights(tarmac.train(workload, devices="cpu", **options))
    run = tarmac.train(workload, devices="cuda:0", strategy=strategy, feed=feed, **options)
    assert run.record.parallel.backend == ("nccl" if strategy == "ddp" else "none")
    tolerance = 1e-12 if model == "mlp" else 1e-10
    assert_close(weights(run), expected, tolerance, f"{strategy} {feed}")


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_any_gpu_and_several_make_the_same_weights_as_the_first(tmp_path):
    for precision, tolerance in (("fp32", 1e-5), ("fp64", 1e-12)):
        case = Case("cnn", precision)
        expected = weights(case.train(tmp_path, devices="cuda:0"))
        for options in ({"devices": "cuda:1"}, {"devices": "2", "strategy": "towers"}):
            ours = weights(case.train(tmp_path, **options))
            assert_close(ours, expected, tolerance, f"{precision} {options}")


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_replicas_on_gpus_draw_from_seeds_of_their_own(tmp_path):
    seeds = {}

    class Spy(torch.nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seeds[inputs.device] = torch.cuda.default_generators[inputs.device.index].initial_seed()
            return super().forward(inputs)

    spied = dataclasses.replace(
        WORKLOADS["mlp"],
        model=lambda: torch.nn.Sequential(torch.nn.Flatten(), Spy(64, 4)),
        name="spied",
    )
    tarmac.train(spied, epochs=1, output=tmp_path, devices="2", strategy="towers")
    assert len(set(seeds.values())) == len(seeds) == 2
