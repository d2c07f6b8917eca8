"""What was read of a file, whatever its format."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.jobs import Job

__all__ = ["Reading"]


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a file holds.

    Attributes:
        format: ``tarmac``, ``hkube`` or ``shipyard``.
        jobs: In the order of the file.
        notes: What a reader should know: read otherwise, or without effect here.
        refusals: What keeps the jobs from being run here, though they can be shown.
    """

    format: str
    jobs: Sequence[Job]
    notes: Sequence[str] = ()
    refusals: Sequence[str] = ()
