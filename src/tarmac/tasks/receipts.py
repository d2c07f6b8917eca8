"""Receipts in an object store, which a task writes after all its outputs.

Where only the store outlives an attempt, the record of its end may be lost with its node. A later
attempt finds the receipt and does not repeat the work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.files import Location, parse_json, read_object, write_object

if TYPE_CHECKING:
    from tarmac.tasks.model import Output

# Directory of receipts below an output's destination; inputs leave it out.
RECEIPTS = ".tarmac"


@dataclasses.dataclass(frozen=True)
class FileKept:
    """A stored output file.

    Attributes:
        uri: URI that the file was copied to.
        size_bytes: Size of the file in bytes.
    """

    uri: str
    size_bytes: int


@dataclasses.dataclass(frozen=True)
class Receipt:
    """The receipt of a task.

    Attributes:
        uri: URI of the receipt in the object store.
        run: Unique name of the run.
        task: Name of the task that writes the receipt.
        attempt: Number of the attempt that writes the receipt, from 1.
    """

    uri: str
    run: str
    task: str
    attempt: int

    def is_there(self) -> bool:
        """Whether an attempt of this task of this run has written the receipt.

        Raises:
            TarmacError: The store does not answer.
        """
        content = read_object(self.uri, os.environ)
        if content is None:
            return False
        try:
            receipt = parse_json(content)
            return bool((receipt["run"], receipt["task"]) == (self.run, self.task))
        except (ValueError, TypeError, KeyError):
            return False

    def leave(self, files: Sequence[FileKept]) -> None:
        """Write the receipt, after all outputs.

        Errors of the store are ignored, because a store may accept outputs alone. Without the
        receipt, a task whose end is lost is only repeated.

        Args:
            files: All output files that were stored.
        """
        content = {
            "run": self.run,
            "task": self.task,
            "attempt": self.attempt,
            "files": [dataclasses.asdict(file) for file in files],
        }
        with contextlib.suppress(TarmacError):
            write_object(self.uri, json.dumps(content, indent=1).encode(), os.environ)


def receipt_of(
    outputs: Sequence[Output], *, run: str, task: str, index: int, attempt: int
) -> Receipt | None:
    """Return the receipt of a task; None for a task without outputs in an object store.

    Args:
        outputs: Outputs of the task; the first in an object store decides where the receipt is.
        run: Unique name of the run.
        task: Name of the task that writes the receipt.
        index: Index of the task in its job, from 0.
        attempt: Number of the attempt that writes the receipt, from 1.
    """
    for output in outputs:
        if output.when != "failure" and Location.parse(output.to).is_object:
            uri = f"{output.to.rstrip('/')}/{RECEIPTS}/{run}/{index:06d}.json"
            return Receipt(uri, run, task, attempt)
    return None
