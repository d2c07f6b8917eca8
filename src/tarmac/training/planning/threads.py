"""Choose by rule the threads of an operation on the CPU, and give the reason."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

from tarmac.machine import Device
from tarmac.training.engine.strategy import StrategySpec

# Two threads wait for each other after every operation. bench/threads_rule.py measures steps of two
# hidden layers on two cores of an AMD EPYC. On free cores, two threads take 1.0 to 1.3 times as
# long as one at 5 MFLOP, and 0.8 to 1.3 times at 32 MFLOP. On busy cores, where a thread waits for
# another that has lost its core, the median step took 1.3 to 40 times as long. This value costs at
# most a fifth on free cores.
_MAX_ONE_THREAD_FLOPS = 40e6


def choose_threads(
    request: int | None,
    device: Device,
    strategy: StrategySpec,
    step_flops: int,
    environ: Mapping[str, str] = os.environ,
) -> tuple[int | None, str]:
    """Choose the threads of a training in one process on a CPU.

    The rule depends on the step's size and the number of cores, but not on their load. So a
    repeated training on this machine sums in the same order.

    Args:
        request: Requested number of threads; 0 for PyTorch's default; None for the rule.
        device: Device on which the training runs.
        strategy: Strategy of the training. Processes of a group set their own share of the cores.
        step_flops: Matrix work of one training step, in FLOP.
        environ: Environment variables, of which ``OMP_NUM_THREADS`` fixes the number if ``request``
            is None.

    Returns:
        The number of threads (None for PyTorch's default), and the reason in words.
    """
    if device.type != "cpu" or strategy.name != "single":
        return None, "PyTorch's own"
    if request is not None:
        return request or None, "as requested"
    if environ.get("OMP_NUM_THREADS"):
        return torch.get_num_threads(), "OMP_NUM_THREADS says so"
    cores = device.num_threads
    if cores > 1 and step_flops <= _MAX_ONE_THREAD_FLOPS:
        return 1, f"{step_flops / 1e6:.0f} MFLOP a step are too few for two threads"
    return cores, "one for each core that this process may use"
