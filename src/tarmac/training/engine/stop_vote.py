"""The ranks' agreement to stop after the same step, and the host's lead over a GPU."""

from __future__ import annotations

import torch

from tarmac.training.engine.team import Team

# On a GPU the host waits for the end of a call after launching this many later steps or calls. So
# the host need not wait for each step, and a stop need not wait for a long queue.
_LAG_STEPS = 16
_LAG_CALLS = 4


class StopVote:
    """The vote to stop, which ranks read from the all-reduced state of every step.

    Args:
        slot: Element ``[]`` of the reduced tensor that counts the votes to stop.
        team: All processes of the training; a single rank needs no vote.
        at_once: Number of steps that one call launches.
    """

    def __init__(self, slot: torch.Tensor, team: Team, at_once: int) -> None:
        self._slot = slot
        self._is_alone = team.world_size == 1
        self._ring: _Ring | None = None
        if slot.is_cuda:
            self._ring = _Ring(
                slot, 1 + max(_LAG_CALLS, _LAG_STEPS // at_once), reads=not self._is_alone
            )

    def cast(self, *, wished: bool) -> None:
        """Set this rank's vote, before a call."""
        if wished and not self._is_alone:
            # Once set, the count stays above zero, as other ranks only add to it.
            self._slot.fill_(1.0)

    def is_carried(self, *, wished: bool) -> bool:
        """Return after a call whether to stop; on all ranks after the same step."""
        votes = self._slot if self._ring is None else self._ring.turn()
        if self._is_alone:
            return wished
        return votes is not None and votes.item() > 0


class _Ring:
    """The last few calls on a GPU, and the slot's value after each."""

    def __init__(self, slot: torch.Tensor, length: int, *, reads: bool) -> None:
        self._slot = slot
        self._reads = reads
        # The host sleeps while it waits for blocking events.
        self._events = [torch.cuda.Event(blocking=True) for _ in range(length)]  # type: ignore[no-untyped-call]
        self._answers = torch.empty(length, dtype=slot.dtype, pin_memory=reads)
        self._num_calls = 0

    def turn(self) -> torch.Tensor | None:
        """Record the launched call; wait for the oldest call and return its value, if any."""
        length = len(self._events)
        newest = self._num_calls % length
        if self._reads:
            self._answers[newest].copy_(self._slot, non_blocking=True)
        self._events[newest].record(torch.cuda.current_stream(self._slot.device))
        self._num_calls += 1
        if self._num_calls < length:
            return None
        oldest = self._num_calls % length
        self._events[oldest].synchronize()
        return self._answers[oldest]
