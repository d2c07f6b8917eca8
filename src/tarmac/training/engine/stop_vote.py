"""How ranks agree to stop after the same step, without a message of its own."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tarmac.training.engine.team import Team

__all__ = ["StopVote"]

# A GPU's answer is read this many steps later, so that the host need not wait for the step.
_LAG = 16


class StopVote:
    """Reads from what ranks add up every step whether one of them wishes to stop.

    Args:
        slot: The element ``[]`` of the reduced tensor that counts those who wish to stop.
        team: All processes.
    """

    def __init__(self, slot: torch.Tensor, team: Team) -> None:
        self._slot = slot
        self._is_alone = team.world_size == 1
        self._on_cuda = slot.is_cuda
        self._answers: deque[tuple[torch.Tensor, torch.cuda.Event]] = deque()
        self._has_cast = False

    def cast(self, *, wished: bool) -> None:
        """Vote, before a step."""
        if self._is_alone or self._has_cast:
            return
        if wished:
            # Adding zeros of others up leaves it above zero from here on.
            self._slot.fill_(1.0)
            self._has_cast = True

    def is_carried(self, *, wished: bool) -> bool:
        """Return after a step whether to stop; on all ranks after the same step."""
        if self._is_alone:
            return wished
        if not self._on_cuda:
            return self._slot.item() > 0
        answer = torch.empty((), dtype=self._slot.dtype, pin_memory=True)
        answer.copy_(self._slot, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # PyTorch has no type
        event.record(torch.cuda.current_stream(self._slot.device))
        self._answers.append((answer, event))
        if len(self._answers) <= _LAG:
            return False
        old, recorded = self._answers.popleft()
        recorded.synchronize()
        return old.item() > 0
