"""The inputs of a node's tasks: one, or one for each element of its batches."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from tarmac.hkube.pipelines.templates import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.hkube.pipelines.templates import Template


@dataclasses.dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs of tasks, each made when it is asked for.

    Attributes:
        template: Template from which each input is made.
        values: One for each of the template's places: the value, or a batch's elements.
        batches: Numbers of the places that have a batch; none where there is one task.
        is_cartesian: Whether there is a task for each combination of their elements. Else the first
            elements go together, then the second; a shorter batch has nothing for the last ones.
        count: How many inputs there are.
    """

    template: Template
    values: Sequence[Any]
    batches: Sequence[int]
    is_cartesian: bool
    count: int

    def make(self, place: int) -> list[Any]:
        """Return the input at a place, from 0."""
        values = list(self.values)
        for number in reversed(self.batches):
            elements = values[number]
            if self.is_cartesian:
                place, at = divmod(place, len(elements))
                values[number] = elements[at]
            else:
                values[number] = elements[place] if place < len(elements) else ABSENT
        return self.template.fill(values)


def count_tasks(lengths: Sequence[int], *, is_cartesian: bool) -> int:
    """Return how many tasks batches of these lengths make together; one without any."""
    if not lengths:
        return 1
    return math.prod(lengths) if is_cartesian else max(lengths)
