"""How ranks agree to stop after the same step, and how far the host may run ahead of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tarmac.training.engine.team import Team

# On a GPU a call's end is awaited when so many steps, or so many calls, were launched after it: the
# host need not wait for the step, and a wish to stop not for all that could be queued.
_LAG_STEPS = 16
_LAG_CALLS = 4


class StopVote:
    """Reads from what ranks add up every step whether one of them wishes to stop.

    Args:
        slot: The element ``[]`` of the reduced tensor that counts those who wish to stop.
        team: All processes of the training; a single rank needs no vote.
        at_once: How many steps are launched by one call.
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
        """Vote, before a call."""
        if wished and not self._is_alone:
            # Adding zeros of others up leaves it above zero from here on.
            self._slot.fill_(1.0)

    def is_carried(self, *, wished: bool) -> bool:
        """Return after a call whether to stop; on all ranks after the same step."""
        votes = self._slot if self._ring is None else self._ring.turn()
        if self._is_alone:
            return wished
        return votes is not None and votes.item() > 0


class _Ring:
    """The last few calls on a GPU, and what the slot held after each."""

    def __init__(self, slot: torch.Tensor, length: int, *, reads: bool) -> None:
        self._slot = slot
        self._reads = reads
        # Events at which the host sleeps.
        self._events = [torch.cuda.Event(blocking=True) for _ in range(length)]  # type: ignore[no-untyped-call]
        self._answers = torch.empty(length, dtype=slot.dtype, pin_memory=reads)
        self._num_calls = 0

    def turn(self) -> torch.Tensor | None:
        """Note the call that was launched; wait for the oldest and return what it left, if any."""
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
