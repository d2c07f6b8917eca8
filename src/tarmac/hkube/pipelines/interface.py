"""The value types of a pipeline's state."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from tarmac.hkube.pipelines.batches import Inputs


@dataclasses.dataclass(frozen=True, slots=True)
class NodeTask:
    """A task of a node that can be started now.

    Attributes:
        node: Name of the node that the task belongs to.
        batch_index: Number of the task in its batch, from 1. None if the node is no batch.
        input: Input list with all references resolved. It shares parts with other tasks and with
            results.
    """

    node: str
    batch_index: int | None
    input: Sequence[Any]

    @property
    def name(self) -> str:
        """The name of the task: ``train``, or ``train[3]`` in a batch."""
        return self.node if self.batch_index is None else f"{self.node}[{self.batch_index}]"


@dataclasses.dataclass(frozen=True, slots=True)
class NodeTasks:
    """Tasks of one node that can be started now, each created on demand.

    Attributes:
        node: Name of the node that the tasks belong to.
        first_index: Batch index of the first task. None if the node is no batch.
        inputs: Inputs of the tasks, in the tasks' order.
    """

    node: str
    first_index: int | None
    inputs: Inputs

    def __len__(self) -> int:
        return self.inputs.count

    def __iter__(self) -> Iterator[NodeTask]:
        return map(self.make, range(self.inputs.count))

    def name_at(self, place: int) -> str:
        """Return the name of a task by its place among these, from 0, without its input."""
        return NodeTask(self.node, self._index_at(place), ()).name

    def make(self, place: int) -> NodeTask:
        """Return the task at a place among these, from 0."""
        return NodeTask(self.node, self._index_at(place), self.inputs.make(place))

    def _index_at(self, place: int) -> int | None:
        return None if self.first_index is None else self.first_index + place


@dataclasses.dataclass(frozen=True, slots=True)
class NodeFailure:
    """The failure of a task.

    Attributes:
        message: Reason for the failure in words, for the user.
        is_image: Whether its image is unavailable, which fails the pipeline at once.
    """

    message: str
    is_image: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class NodeForecast:
    """The tasks of a node as known before any task has run.

    Attributes:
        node: Name of the node that the tasks belong to.
        num_tasks: Number of tasks if no earlier task fails. None: results decide it.
        tasks: Tasks of the node. None: their inputs are not known yet.
        depends_on: Names of the nodes whose results the tasks take.
    """

    node: str
    num_tasks: int | None
    tasks: NodeTasks | None
    depends_on: Sequence[str]
