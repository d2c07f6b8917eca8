"""The stages: what each is for, how long it takes, and which files its result rests on."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1]
# Every stage rests on Tarmac itself and on what runs stages.
_ALWAYS = ("src/tarmac/**/*", "bench/_harness.py", "bench/gpu_stage.py", "bench/gpu_stages/_*.py")


@dataclasses.dataclass(frozen=True)
class Stage:
    """One process that shows or measures something.

    Attributes:
        name: Of its module in `gpu_stages`, with ``-`` for ``_``.
        seconds: How long it takes, by estimate, where it has not run yet.
        limit_s: When it is ended.
        purpose: In a few words.
        rests_on: Files, as patterns below the repository, beside those that all rest on: when one
            of them has changed, the stage is to be run again.
        program: What runs it; by default its module.
    """

    name: str
    seconds: float
    limit_s: float
    purpose: str
    rests_on: tuple[str, ...] = ()
    program: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """What runs it, without the arguments that all stages take."""
        return self.program or (sys.executable, "-u", str(BENCH / "gpu_stage.py"), self.name)

    @property
    def files(self) -> tuple[str, ...]:
        """The patterns of all files that its result rests on."""
        return (*_ALWAYS, f"bench/gpu_stages/{self.name.replace('-', '_')}.py", *self.rests_on)


# What unblocks most per second comes first: what is here and what breaks, whether it is right, then
# the figures that people ask for.
STAGES = (
    Stage("facts", 25, 90, "the machine: names, ceilings, latencies"),
    Stage(
        *("smoke", 40, 120, "does anything raise: precisions, ddp, a stack"),
        rests_on=("bench/peers/gpu_population.py", "bench/peers/_gpu_networks.py"),
    ),
    Stage(
        *("anatomy", 45, 120, "kernels and gaps of a step"),
        rests_on=("bench/peers/gpu_anatomy.py", "bench/peers/_gpu_networks.py"),
    ),
    Stage("tests", 120, 240, "the tests that are marked gpu", rests_on=("tests/**/*.py",)),
    Stage("check", 60, 150, "tarmac check, and what NVML says"),
    Stage(
        *("mnist-mlp", 140, 240, "20 epochs against plain CUDA loops"),
        rests_on=tuple(f"bench/peers/{n}.py" for n in ("torch_cuda", "_mnist", "gpu_trainings")),
    ),
    Stage(
        *("population", 120, 240, "stacks of 1 to 1,000 networks against one at a time"),
        rests_on=tuple(
            f"bench/peers/{n}.py" for n in ("gpu_population", "_gpu_networks", "gpu_trainings")
        ),
    ),
    Stage(
        *("mnist-fast", 60, 150, "99 % of MNIST over 30 seeds"),
        rests_on=("bench/peers/gpu_trainings.py",),
    ),
    Stage(
        *("faults", 75, 180, "kill -9 and resume, out of memory, signals, memory given back"),
        rests_on=("bench/peers/gpu_faults.py",),
    ),
    Stage("search", 90, 200, "the published search on all of MNIST"),
    Stage("workloads", 120, 240, "the other workloads, verified"),
    Stage(
        *("kernels", 60, 150, "the fused network against float64"),
        rests_on=("bench/peers/gpu_kernels.py",),
    ),
    Stage(
        *("cifar", 120, 240, "94 % of CIFAR-10 over seeds"),
        rests_on=("bench/peers/gpu_trainings.py",),
    ),
    Stage(
        *("several", 120, 200, "several GPUs: bandwidth, ddp, towers"),
        rests_on=("bench/peers/gpu_all_reduce.py",),
    ),
)
