"""The result of one epoch."""

from __future__ import annotations

import dataclasses

from tarmac.training.engine.scoring import Score


@dataclasses.dataclass(frozen=True)
class Epoch:
    """The result of one epoch on this rank.

    Attributes:
        num_steps: Number of steps done in the epoch; fewer than planned if it was stopped.
        seconds: Duration of the epoch, in seconds.
        score: Score over all ranks, of the model at each step, with dropout.
        stop: Whether any rank requested a stop; the same on all ranks.
        data_wait_s: Seconds of this session in which the host of this rank gathered samples or
            waited for them. A GPU with queued steps computes meanwhile.
        rank_wait_s: Seconds in which this rank waited for other ranks. None for a single rank, and
            with NCCL, where the GPU waits and the host cannot measure it.
    """

    num_steps: int
    seconds: float
    score: Score
    stop: bool
    data_wait_s: float = 0.0
    rank_wait_s: float | None = None
