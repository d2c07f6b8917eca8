"""The number of units that a site allows a user, found by trial."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Window:
    """Room for units in an engine's queue.

    A site seldom documents how many units a user may have. The window tries its full size first,
    then half of a refused submission, then the middle between the accepted and the refused number.
    The search reaches a site's exact limit after a few refusals.

    Attributes:
        size: Number of units to try.
        refused: Number of units that the site refused; None while it refused none.
    """

    size: int
    refused: int | None = None

    def room(self, held: int) -> int:
        """Return how many more units to try.

        Args:
            held: Units of this run in the queue now.
        """
        return max(0, self.size - held)

    def refuse(self, held: int, tried: int) -> None:
        """Note that the site refused units.

        Args:
            held: Units of this run in the queue before the submission.
            tried: Units in the submission that the site refused.
        """
        self.refused = held + tried
        self.size = max(1, min(self.size, held + tried // 2))

    def accept(self, held: int) -> None:
        """Note that the site accepted units.

        Args:
            held: Units of this run in the queue now.
        """
        if self.refused is None:
            return
        if held >= self.refused:
            self.refused = None
        elif held >= self.size:
            self.size = max(self.size, (held + self.refused) // 2)
