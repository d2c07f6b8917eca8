"""Starting and resuming a job with a pipeline in its run's directory."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

from tarmac.distribution import require
from tarmac.errors import RequestError
from tarmac.formats import Algorithm
from tarmac.hkube.clusters import ClusterHost, EngineWatcher, refuse_on, wrap
from tarmac.hkube.hosting import Calls, Host, Pool, refuse
from tarmac.hkube.running.calls import PipelineCalls
from tarmac.hkube.running.expansion import TUNER
from tarmac.hkube.running.flow import Flow, PipelineFailed
from tarmac.hkube.running.history import History, open_history
from tarmac.hkube.running.observer import Observer
from tarmac.hkube.running.outcome import PipelineEnd, write_result
from tarmac.hkube.running.plan import PipelinePlan, plan_pipeline
from tarmac.hkube.running.tasks import Tasks
from tarmac.jobs import (
    DEFAULT_REQUEST,
    Job,
    JobRun,
    RunRequest,
    Secret,
    Task,
    is_asked_to_end,
    note_executor,
    note_outcome,
    read_record,
    refuse_lost_lock,
    working_on,
)
from tarmac.processes import identify

# Interval of the checks for a request to stop or detach.
_LOOK_EVERY_S = 0.1


class OpenHost(Protocol):
    """A function that opens a host of algorithms, such as `Pool`."""

    def __call__(
        self,
        algorithms: Mapping[str, Algorithm],
        run: Path,
        *,
        base: Path,
        watcher: EngineWatcher,
        calls: Calls,
        concurrency: int | None,
        fake_gpus: int,
        secrets: Mapping[str, Secret],
    ) -> AbstractAsyncContextManager[Host]:
        """Return a context manager that opens the host."""
        ...


def prepare_pipeline(
    job: Job,
    base: Path,
    request: RunRequest = DEFAULT_REQUEST,
    *,
    executor: str = "local",
    by_job: bool = False,
) -> PipelinePlan:
    """Plan a job's pipeline, and refuse it before anything starts if it can never run.

    Args:
        job: Job with ``pipeline`` set and no refusals.
        base: Directory that relative paths in the job start from.
        request: Options of the run, such as its secrets. Default: `DEFAULT_REQUEST`.
        executor: Name of the tasks' executor, one of `tarmac.jobs.executor_names`.
        by_job: Whether the runner itself will be a job of the cluster.

    Raises:
        RequestError: The pipeline is invalid or cannot run on the executor, or an algorithm of its
            nodes can never fit, or needs a missing secret or container engine.
        MissingExtraError: The pipeline has a tuner node, and Optuna is not installed.
    """
    if job.refusals:
        first, *rest = job.refusals
        raise RequestError(f"{job.name} cannot be run here: {first}", hint="\n".join(rest) or None)
    plan = plan_pipeline(job)
    for node in plan.pipeline.nodes:
        if node.kind == TUNER:
            require("optuna", f"node {node.node_name}")
    if executor == "local":
        refuse(plan.needed, base, request)
    else:
        refuse_on(plan.needed, base, request, executor, job.options, by_job=by_job)
    return plan


def asked_of_cluster(job: Job, base: Path, on: str) -> Sequence[Task]:
    """Return the cluster tasks of a job with a pipeline: a template for each algorithm.

    Their number and inputs are known only during the run.

    Args:
        job: Job with ``pipeline`` set.
        base: Directory that relative paths in the job start from.
        on: Name of the executor, one of `tarmac.jobs.executor_names`.

    Raises:
        RequestError: The pipeline is invalid, or an algorithm cannot run on such a cluster.
    """
    needed = plan_pipeline(job).needed.values()
    return [
        dataclasses.replace(wrap(algorithm, base, on, job.options).template, index=index)
        for index, algorithm in enumerate(needed)
    ]


def work_on_pipeline(
    run: JobRun,
    observer: Observer,
    request: RunRequest = DEFAULT_REQUEST,
    *,
    stop: Callable[[], bool] = lambda: False,
    detach: Callable[[], bool] = lambda: False,
    open_host: OpenHost | None = None,
) -> PipelineEnd:
    """Run the remaining tasks of a job with a pipeline.

    Tasks that succeeded with the same input in an earlier session are not run again. Failed tasks
    are, unless the run was killed: a killed run continues from where it was, beyond its failures.

    Args:
        run: Run of a job with ``pipeline`` set, with its directory.
        observer: Receives the run's progress as it happens.
        request: Options of the run. Its ``concurrency`` limits the instances of algorithms.
            Default: `DEFAULT_REQUEST`.
        stop: Function that returns whether to end all tasks and stop. Called some ten times a
            second.
        detach: Function that returns whether to leave running tasks to their engine. Called as
            often; not for tasks on this machine.
        open_host: Function that opens the host of algorithms. Default: the host for the run's
            executor.

    Raises:
        RequestError: Another process works on the run, another engine still has its tasks, or the
            pipeline is invalid.
        TarmacError: The run cannot continue: its directory is full or damaged, or another process
            took over its lease because this process seemed dead.
    """
    plan = plan_pipeline(run.job)
    leaving, myself = _Leaving(), identify(os.getpid())
    if open_host is None:
        open_host = Pool if run.executor == "local" else _cluster_of(run, leaving)
    with working_on(run.path) as lock:
        note_executor(run)
        was_killed = read_record(run.path).outcome is None
        with open_history(run.path, keeps_failures=was_killed) as history:
            note_outcome(run.path, None, "")

            host = functools.partial(
                open_host,
                plan.algorithms,
                run.path,
                base=run.base,
                concurrency=request.concurrency or run.job.concurrency,
                fake_gpus=request.fake_gpus,
                secrets=request.secrets,
            )
            end = asyncio.run(
                _work(
                    plan,
                    run.path,
                    history,
                    observer,
                    host=host,
                    stop=lambda: (
                        stop()
                        or (lock.is_lost and run.executor == "local")
                        or is_asked_to_end(run.path, myself)
                    ),
                    # Only the current lease holder may use the engine, so detach on a lost lease.
                    detach=lambda: run.executor != "local" and (detach() or lock.is_lost),
                    leaving=leaving,
                )
            )
        refuse_lost_lock(run.path, lock)
        if not end.is_left:
            write_result(end)
        if end.outcome != "interrupted":
            note_outcome(run.path, end.outcome, end.reason)
        return end


class _Leaving:
    """A flag: whether running tasks are left to their engine."""

    is_so = False

    def __call__(self) -> bool:
        return self.is_so


def _cluster_of(run: JobRun, leaving: _Leaving) -> OpenHost:
    return functools.partial(ClusterHost, on=run.executor, options=run.job.options, leaves=leaving)


async def _work(
    plan: PipelinePlan,
    run: Path,
    history: History,
    observer: Observer,
    *,
    host: Callable[..., AbstractAsyncContextManager[Host]],
    stop: Callable[[], bool],
    detach: Callable[[], bool],
    leaving: _Leaving,
) -> PipelineEnd:
    started = time.monotonic()
    tasks = Tasks(run, history, observer)
    is_stopped = False
    async with host(watcher=tasks, calls=PipelineCalls(plan, tasks)) as tasks.host:
        flow = Flow(plan.pipeline, plan.stored, tasks, job_id=run.name)
        work = asyncio.ensure_future(flow.run())
        while not work.done() and not tasks.broken.done() and not is_stopped:
            waited: set[asyncio.Future[Any]] = {work, tasks.broken}
            await asyncio.wait(waited, timeout=_LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            observer.waited()
            is_stopped = stop()
            if not is_stopped and detach():
                leaving.is_so = tasks.is_leaving = is_stopped = True
        tasks.record_at_once()
        work.cancel()
        await asyncio.wait({work})
    if tasks.broken.done():
        tasks.broken.result()
    outcome: Literal["succeeded", "failed", "interrupted"] = "succeeded"
    reason, results = "", list[dict[str, Any]]()
    try:
        results = work.result()
    except asyncio.CancelledError:
        outcome, reason = "interrupted", "the run was stopped"
    except PipelineFailed as error:
        outcome, reason = "failed", error.message
    return PipelineEnd(
        path=run,
        name=plan.pipeline.name,
        outcome=outcome,
        reason=reason,
        results=results,
        is_algorithm=plan.is_algorithm,
        counts=dict(tasks.counts),
        seconds=time.monotonic() - started,
        is_left=leaving.is_so,
    )
