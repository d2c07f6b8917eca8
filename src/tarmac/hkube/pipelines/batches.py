"""The inputs of a node's tasks: a single input, or an input for each element of its batches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from tarmac.hkube.pipelines.templates import ABSENT, Template


@dataclasses.dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of tasks, each created on demand.

    Attributes:
        template: Template from which each input is made.
        values: A value, or a batch's elements, for each of the template's places.
        batches: Numbers of the places that have a batch. Empty: a single task.
        is_cartesian: Whether there is a task for each combination of the batches' elements.
            Otherwise batches are zipped, and a shorter batch has no value for the last tasks.
        count: Number of inputs in all.
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
    """Return the number of tasks for batches of these lengths; 1 without batches."""
    if not lengths:
        return 1
    return math.prod(lengths) if is_cartesian else max(lengths)
