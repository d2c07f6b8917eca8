"""The state of a pipeline: the tasks that can start, given the tasks that have ended.

Example:
    >>> from tarmac.formats import read_pipeline
    >>> pipeline = read_pipeline({"name": "sum", "nodes": [
    ...     {"nodeName": "square", "algorithmName": "square", "input": ["#@flowInput.numbers"]},
    ...     {"nodeName": "add", "algorithmName": "add", "input": ["@square"]}]})
    >>> state = PipelineState(pipeline, {"numbers": [2, 3]})
    >>> first, second = (task for tasks in state.start() for task in tasks)
    >>> first.name, first.input
    ('square[1]', [2])
    >>> list(state.succeeded(second, 9)), [list(tasks) for tasks in state.succeeded(first, 4)]
    ([], [[NodeTask(node='add', batch_index=None, input=[[4, 9]])]])
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from tarmac.errors import RequestError
from tarmac.formats import MAX_ELEMENTS, Pipeline
from tarmac.hkube.pipelines.forecast import count_all_tasks
from tarmac.hkube.pipelines.graph import GraphNode, read_graph
from tarmac.hkube.pipelines.interface import NodeFailure, NodeForecast, NodeTask, NodeTasks
from tarmac.hkube.pipelines.progress import Progress, excess_of_failures
from tarmac.hkube.pipelines.supply import PipelineStopped, Supply, check_flow_input


class PipelineState:
    """The state of a pipeline.

    The state depends only on the sequence of reported endings: the same sequence creates the same
    tasks. It keeps results while a node may still need them, and the pipeline's own results until
    the end.

    As in HKube, a node that takes a whole batch gets no value for a failed task. A node that
    follows the batch task by task gets None. A batch of an empty list or of a value that is no list
    creates no tasks, and neither do batches of its results. Unlike HKube, the state knows the
    number of tasks of a node that follows a batch. The percentage of failed tasks is of that
    number, not only of the started tasks.

    Args:
        pipeline: Pipeline to run, of kind ``batch``.
        flow_input: Input of the run, which ``@flowInput`` refers to.

    Attributes:
        stopped_for: Why the pipeline has failed. Empty: it has not failed.

    Raises:
        RequestError: The input lacks a value that a node refers to, or a reference is not supported
            here.
    """

    def __init__(self, pipeline: Pipeline, flow_input: Any) -> None:
        self.stopped_for = ""
        self._name = pipeline.name
        self._tolerance = pipeline.options.batch_tolerance
        self._graph = read_graph(pipeline)
        check_flow_input(self._graph, flow_input, pipeline.name)
        self._progress = {name: Progress() for name in self._graph.nodes}
        self._num_takers = {name: len(node.children) for name, node in self._graph.nodes.items()}
        self._supply = Supply(self._graph, self._progress, flow_input)
        self._left = set(self._graph.nodes)

    @property
    def is_finished(self) -> bool:
        """Whether no task is left, or the pipeline has failed."""
        return bool(self.stopped_for) or not self._left

    def parents_of(self, node: str) -> tuple[str, ...]:
        """Return the nodes that a node waits for or follows."""
        graph_node = self._graph.nodes[node]
        return tuple(dict.fromkeys((*graph_node.needs, *graph_node.leaders)))

    def children_of(self, node: str) -> tuple[str, ...]:
        """Return the nodes that wait for a node or follow it."""
        return self._graph.nodes[node].children

    def start(self) -> Sequence[NodeTasks]:
        """Return the tasks that need no other task; call it once, before all other methods."""
        first = [self._graph.nodes[name] for name in self._graph.order]
        return self._advance([node for node in first if not node.needs and not node.leaders], ())

    def succeeded(self, task: NodeTask, value: Any) -> Sequence[NodeTasks]:
        """Return the tasks that can start after a task's success.

        Args:
            task: Task that has succeeded. Only its node and batch index matter.
            value: Result of the task, of plain values. It is kept without a copy.

        Raises:
            ValueError: The task does not exist, or has ended before.
        """
        return self._ended(task, value)

    def failed(self, task: NodeTask, failure: NodeFailure) -> Sequence[NodeTasks]:
        """Return the tasks that can start after a task's final failure.

        The pipeline fails too, unless the task's batch tolerates the failure.

        Raises:
            ValueError: The task does not exist, or has ended before.
        """
        return self._ended(task, failure)

    def results(self) -> list[dict[str, Any]]:
        """Return the pipeline's results so far, in HKube's form.

        Returns:
            ``nodeName``, ``algorithmName`` and ``result`` of each task, for nodes whose results no
            node takes or that set ``includeInResult``. Tasks of a batch have ``batchIndex``. A
            failed task has ``error`` instead of ``result``. A batch without tasks has a single
            entry with the index -1.
        """
        return [
            entry
            for name in self._graph.order
            if self._graph.nodes[name].is_result
            for entry in _entries(self._graph.nodes[name], self._progress[name])
        ]

    def known_tasks(self) -> Sequence[NodeForecast]:
        """Return a forecast of each node's tasks before any has run.

        Returns:
            Forecasts in the order of the results, without output nodes, which run no tasks.

        Raises:
            RequestError: A node has too many tasks.
        """
        numbers = count_all_tasks(self._graph, self._supply)
        forecasts = []
        for name in self._graph.order:
            node = self._graph.nodes[name]
            if not node.is_output:
                parents = self.parents_of(name)
                try:
                    tasks = None if parents else self._tasks(node, None)
                except PipelineStopped as reason:
                    raise RequestError(f"pipeline {self._name}: {reason}") from None
                forecasts.append(NodeForecast(name, numbers[name], tasks, parents))
        return forecasts

    def _ended(self, task: NodeTask, outcome: Any) -> Sequence[NodeTasks]:
        node, index = self._graph.nodes.get(task.node), task.batch_index
        if node is None or not _is_open(node, self._progress[task.node], index):
            raise ValueError(f"{task.name} is not a running task")
        if self.stopped_for:
            return ()
        return self._advance((), ((node, index, outcome),))

    def _advance(
        self, free: Sequence[GraphNode], ended: Sequence[tuple[GraphNode, int | None, Any]]
    ) -> Sequence[NodeTasks]:
        """Create the tasks that follow, also from output nodes, which end at once."""
        step = _Step()
        try:
            for node, index, outcome in ended:
                self._end(node, index, outcome, step)
            for node in free:
                self._make(node, None, step)
            while step.news:
                name, index = step.news.popleft()
                for child in self._graph.nodes[name].children:
                    self._tell(self._graph.nodes[child], name, index, step)
        except PipelineStopped as reason:
            self.stopped_for = str(reason)
            return ()
        return step.ready

    def _end(self, node: GraphNode, index: int | None, outcome: Any, step: _Step) -> None:
        progress = self._progress[node.name]
        progress.end(index, outcome)
        if isinstance(outcome, NodeFailure):
            if outcome.is_image or not node.is_batch:
                raise PipelineStopped(f"{NodeTask(node.name, index, ()).name}: {outcome.message}")
            self._check_tolerance(node)
        if index is not None:
            step.news.append((node.name, index))
        self._complete(node, step)

    def _tell(self, child: GraphNode, parent: str, index: int | None, step: _Step) -> None:
        """Create a child's tasks that can start now.

        Args:
            child: Node whose tasks may start.
            parent: Name of the node with a task that has ended, or that is complete.
            index: Batch index of the parent's task that has ended. None if the parent is complete.
            step: Collects the tasks that can start.
        """
        progress = self._progress[child.name]
        if progress.is_expanded or not all(
            self._progress[name].is_complete for name in child.needs
        ):
            return
        if not child.leaders:
            if index is None:
                self._make(child, None, step)
            return
        leaders = [self._progress[leader] for leader in child.leaders]
        if index is not None and parent in child.leaders:
            ahead = {index}
        elif index is None:
            ahead = {number for leader in leaders for number in leader.ended if number is not None}
        else:
            return
        for number in sorted(number for number in ahead if number not in progress.followed):
            if all(leader.has_ended(number) for leader in leaders):
                self._make(child, number, step)
        if index is None and all(leader.is_complete for leader in leaders):
            self._expand(child)
            self._complete(child, step)

    def _make(self, node: GraphNode, index: int | None, step: _Step) -> None:
        """Create a node's tasks: all tasks, or those that follow a leader's task."""
        progress = self._progress[node.name]
        tasks = self._tasks(node, index)
        progress.num_made += len(tasks)
        if index is not None:
            first = tasks.first_index or index
            progress.followed[index] = range(first, first + len(tasks))
        else:
            self._expand(node)
        if node.is_output:
            for task in tasks:
                self._end(node, task.batch_index, task.input, step)
        elif len(tasks):
            step.ready.append(tasks)
        if not len(tasks):
            self._complete(node, step)

    def _complete(self, node: GraphNode, step: _Step) -> None:
        """Queue a notice for a node's children if the node is complete."""
        if self._progress[node.name].is_complete:
            self._left.remove(node.name)
            step.news.append((node.name, None))

    def _expand(self, node: GraphNode) -> None:
        """Note that a node has all its tasks, and drop results that no node needs any more."""
        progress = self._progress[node.name]
        progress.is_expanded = True
        progress.settled = {}
        for parent in {*node.needs, *node.leaders}:
            self._num_takers[parent] -= 1
            if not self._num_takers[parent] and not self._graph.nodes[parent].is_result:
                self._progress[parent].ended = {}
        self._expect(node, progress.num_made)

    def _expect(self, node: GraphNode, number: int) -> None:
        """Note the number of tasks of a node, and of the nodes that follow it task by task."""
        ahead = deque([(node, number)])
        while ahead:
            node, number = ahead.popleft()
            progress = self._progress[node.name]
            if progress.num_expected == number:
                continue
            progress.num_expected = number
            self._check_tolerance(node)
            for name in node.children:
                child = self._graph.nodes[name]
                followed = [self._progress[leader].num_expected for leader in child.leaders]
                known = [count for count in followed if count is not None]
                is_known = node.name in child.leaders and len(known) == len(followed)
                if is_known and not child.batches:
                    ahead.append((child, max(known)))

    def _check_tolerance(self, node: GraphNode) -> None:
        excess = excess_of_failures(self._progress[node.name], self._tolerance)
        if excess is not None:
            raise PipelineStopped(f"{node.name}: {excess}")

    def _tasks(self, node: GraphNode, index: int | None) -> NodeTasks:
        inputs = self._supply.inputs(node, index)
        num_made = self._progress[node.name].num_made
        num_tasks = num_made + inputs.count
        if num_tasks > MAX_ELEMENTS:
            raise PipelineStopped(
                f"{node.name}: {num_tasks} tasks, at most {MAX_ELEMENTS} can be run"
            )
        return NodeTasks(node.name, num_made + 1 if node.batches else index, inputs)


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    """The created tasks of one step, and the notices still to deliver to children."""

    ready: list[NodeTasks] = dataclasses.field(default_factory=list)
    news: deque[tuple[str, int | None]] = dataclasses.field(default_factory=deque)


def _is_open(node: GraphNode, progress: Progress, index: int | None) -> bool:
    if progress.is_complete or index in progress.ended or (index is not None) != node.is_batch:
        return False
    if index is None:
        return progress.num_made > 0
    return 1 <= index <= progress.num_made if node.batches else index in progress.followed


def _entries(node: GraphNode, progress: Progress) -> Iterator[dict[str, Any]]:
    if node.is_batch and progress.is_complete and not progress.num_made:
        yield {"nodeName": node.name, "batchIndex": -1, "algorithmName": node.algorithm}
    for index in progress.indices():
        entry: dict[str, Any] = {"nodeName": node.name}
        if index is not None:
            entry["batchIndex"] = index
        entry["algorithmName"] = node.algorithm
        outcome = progress.ended[index]
        if isinstance(outcome, NodeFailure):
            entry["error"] = outcome.message
        else:
            entry["result"] = outcome
        yield entry
