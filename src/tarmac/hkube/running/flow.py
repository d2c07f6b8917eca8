"""The run of one pipeline: it starts the tasks of its state, and reports their endings to it."""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from tarmac.errors import TarmacError
from tarmac.formats import Node, Pipeline, merged, read_tuner_spec
from tarmac.hkube.hosting import Ending, RetryPolicy, Why, Work
from tarmac.hkube.pipelines import NodeFailure, NodeTask, NodeTasks, PipelineState
from tarmac.hkube.running.expansion import TUNER, expand
from tarmac.hkube.running.history import RecordedResult
from tarmac.hkube.running.tasks import Tasks
from tarmac.hkube.tuning import TrialEnd, tune
from tarmac.hkube.values import digest_of
from tarmac.jobs import directory_name

# Bound on tasks of a node at the host: more are not faster, and each keeps its input in memory.
_MAX_AT_ONCE = 256


class PipelineFailed(TarmacError):  # noqa: N818 - named after the event
    """A pipeline has failed; the message is the reason from its state."""


class Flow:
    """The run of one pipeline, to be used once.

    Args:
        pipeline: Pipeline from `expand`, without nodes that name stored pipelines.
        stored: Stored pipelines that the tuners run, by name.
        tasks: Tasks that all pipelines of the run share.
        job_id: ID of this pipeline's run, as algorithms receive it.
        root_job_id: ID of the outermost pipeline's run. None if this pipeline is the outermost.
        prefix: Prefix of the task names in the run: empty, or such as ``caller/pipeline#1/``.
        caller: Task whose algorithm started the pipeline. None if no algorithm did.

    Raises:
        RequestError: The nodes form no valid graph, or the input lacks a value that a node needs.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        stored: Mapping[str, Pipeline],
        tasks: Tasks,
        *,
        job_id: str,
        root_job_id: str | None = None,
        prefix: str = "",
        caller: Work | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._stored = stored
        self._tasks = tasks
        self._job_id = job_id
        self._root_job_id = root_job_id
        self._prefix = prefix
        self._caller = caller
        first = pipeline.nodes[0]
        self._is_algorithm = (
            not prefix
            and len(pipeline.nodes) == 1
            and first.node_name == first.algorithm_name == pipeline.name
        )
        self._nodes: dict[str, Node] = {node.node_name: node for node in pipeline.nodes}
        self._state = PipelineState(pipeline, pipeline.flow_input or {})
        self._waiting: dict[str, deque[Iterator[NodeTask]]] = defaultdict(deque)
        self._active: dict[str, set[asyncio.Future[Ending]]] = defaultdict(set)
        self._repeats: list[tuple[int, int, NodeTasks, int, RecordedResult]] = []
        self._numbers = itertools.count()
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> list[dict[str, Any]]:
        """Run the pipeline to its end; cancelling this call stops its tasks.

        Returns:
            The pipeline's results, in HKube's form.

        Raises:
            PipelineFailed: The pipeline failed; its running tasks are stopped.
            TarmacError: The run cannot continue, for example because of a full disk.
        """
        limit = asyncio.timeout(_ttl_s(self._pipeline))
        try:
            async with limit:
                self._take(self._state.start())
                self._advance()
                await self._end
        except TimeoutError:
            if not limit.expired():
                raise
            seconds = _ttl_s(self._pipeline)
            raise PipelineFailed(f"pipeline expired: its {seconds:g} s are over") from None
        finally:
            self._stop()
        if self._state.stopped_for:
            raise PipelineFailed(self._state.stopped_for)
        return self._state.results()

    def _take(self, groups: Iterable[NodeTasks]) -> None:
        """Queue tasks; tasks that ended in an earlier session have their own queue.

        A task's input is created only when the task starts.
        """
        for group in groups:
            repeats = self._repeats_of(group)
            for place, earlier in repeats.items():
                repeat = (earlier.position, next(self._numbers), group, place, earlier)
                heapq.heappush(self._repeats, repeat)
            left = itertools.filterfalse(repeats.__contains__, range(len(group)))
            self._waiting[group.node].append(map(group.make, left))

    def _repeats_of(self, group: NodeTasks) -> dict[int, RecordedResult]:
        """Return the earlier endings of a group's tasks, by the tasks' places."""
        history = self._tasks.history
        if not history.has_earlier:
            return {}
        pairs = (
            (place, history.take_earlier(self._prefix + group.name_at(place)))
            for place in range(len(group))
        )
        return {place: earlier for place, earlier in pairs if earlier is not None}

    def _advance(self) -> None:
        """Start the tasks that can start; end the run when the pipeline is finished."""
        while self._repeats and not self._state.is_finished:
            _, _, group, place, earlier = heapq.heappop(self._repeats)
            self._repeat(group, place, earlier)
        if not self._state.is_finished:
            for node in [*self._waiting]:
                self._start_some(node, self._waiting[node])
        if self._state.is_finished and not self._end.done():
            self._end.set_result(None)

    def _repeat(self, group: NodeTasks, place: int, earlier: RecordedResult) -> None:
        """Report an earlier ending to the state if the input is the same; else queue the task."""
        task = group.make(place)
        if earlier.digest != digest_of(task.input) or not earlier.digest:
            self._waiting[task.node].append(map(group.make, (place,)))
            return
        self._tasks.repeated(self._prefix + task.name, succeeded=earlier.place is not None)
        if earlier.place is None:
            failure = NodeFailure(earlier.message, is_image=earlier.is_image)
            self._take(self._state.failed(task, failure))
        else:
            value = self._tasks.history.value(earlier.place)
            self._take(self._state.succeeded(task, value))

    def _start_some(self, node: str, groups: deque[Iterator[NodeTask]]) -> None:
        while groups and len(self._active[node]) < _MAX_AT_ONCE:
            task = next(groups[0], None)
            if task is None:
                groups.popleft()
            else:
                self._start(task)
        if not groups:
            del self._waiting[node]

    def _start(self, task: NodeTask) -> None:
        node = self._nodes[task.node]
        digest = digest_of(task.input)
        work = self._work(task, node)
        future: asyncio.Future[Ending]
        if node.kind == TUNER:
            future = asyncio.ensure_future(self._tuned(work, node, digest))
        else:
            future = self._tasks.submit(work, digest)
        self._active[task.node].add(future)
        future.add_done_callback(functools.partial(self._ended, task))

    def _work(self, task: NodeTask, node: Node) -> Work:
        name = self._prefix + task.name
        index, task_id = self._tasks.index_and_id(name)
        if self._is_algorithm and node.task_id is not None:
            # A later run with the same task ID resumes from the task's output.
            part = "" if task.batch_index is None else f"-{task.batch_index}"
            task_id = f"{node.task_id}{part}"
        return Work(
            index=index,
            name=name,
            task_id=task_id,
            algorithm=node.algorithm_name or "",
            input=task.input,
            job_id=self._job_id,
            root_job_id=self._root_job_id,
            pipeline=self._pipeline.name,
            node=task.node,
            batch_index=task.batch_index,
            parents=self._state.parents_of(task.node),
            children=self._state.children_of(task.node),
            ttl_s=node.ttl or None,
            retry=cast("RetryPolicy", node.retry.policy),
            limit=node.retry.limit,
            priority=self._pipeline.priority,
            caller=self._caller,
        )

    def _ended(self, task: NodeTask, future: asyncio.Future[Ending]) -> None:
        active = self._active[task.node]
        active.discard(future)
        if future.cancelled() or self._end.done():
            return
        try:
            ending = future.result()
            if ending.succeeded:
                self._take(self._state.succeeded(task, ending.value))
            else:
                failure = NodeFailure(ending.message, is_image=ending.why == "image")
                self._take(self._state.failed(task, failure))
            self._advance()
        except Exception as error:
            self._end.set_exception(error)

    def _stop(self) -> None:
        if not self._end.done():
            self._end.cancel()
        for futures in self._active.values():
            for future in [*futures]:
                future.cancel()

    async def _tuned(self, work: Work, node: Node, digest: str) -> Ending:
        """Run a tuner node: one trial of its objective pipeline after another."""
        directory = self._tasks.run / "tasks" / directory_name(work.index, work.name)
        directory.mkdir(parents=True, exist_ok=True)
        self._tasks.started(work, 1, directory, ())
        spec = read_tuner_spec(node.spec)
        started = asyncio.get_running_loop().time()

        async def objective(number: int, params: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
            stored = self._stored[spec.objective_pipeline]
            # The parameters override the stored flowInput, as in calls by algorithms.
            flow_input = merged(stored.flow_input or {}, {"hyperParams": params})
            pipeline = stored.model_copy(update={"flow_input": flow_input})
            trial = Flow(
                expand(pipeline, self._stored),
                self._stored,
                self._tasks,
                job_id=f"{work.task_id}-{number + 1}",
                root_job_id=self._root_job_id or self._job_id,
                prefix=f"{work.name}/{number + 1}/",
                caller=self._caller,
            )
            return await trial.run()

        def watch(end: TrialEnd) -> None:
            self._tasks.tried(work.name, end.number, end.params, end.value)

        why: Why = ""
        message, value = "", None
        try:
            async with asyncio.timeout(work.ttl_s):
                value = await tune(spec, objective, directory, watch)
        except asyncio.CancelledError:
            stopped = Ending(work=work, why="stopped", message="the run was stopped", attempts=1)
            self._tasks.end(stopped, digest)
            raise
        except TimeoutError:
            why, message = "ttl", f"its {work.ttl_s:g} s are over"
        except TarmacError as error:
            why, message = "error", error.message
        seconds = asyncio.get_running_loop().time() - started
        ending = Ending(
            work=work, value=value, why=why, message=message, attempts=1, seconds=seconds
        )
        return self._tasks.end(ending, digest)


def _ttl_s(pipeline: Pipeline) -> float | None:
    """Return a pipeline's time limit in seconds, or None.

    HKube's default of an hour does not apply, because no other user waits here.
    """
    options = pipeline.options
    ttls = [options.ttl] if "ttl" in options.model_fields_set else []
    ttls += [options.active_ttl] if options.active_ttl is not None else []
    return min(ttls, default=None)
