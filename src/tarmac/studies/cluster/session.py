"""Run a study with workers on a cluster, from the submitting machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from tarmac import jobs
from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.studies.cluster.following import Following
from tarmac.studies.cluster.workers import (
    RUNS,
    STORAGE_VARIABLE,
    Workers,
    most_workers_of,
    workers_job,
)
from tarmac.studies.study.storage import has_password

if TYPE_CHECKING:
    from tarmac.jobs import JobRun
    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.writer import StudyWriter

# How this session ended: the study is over, it was stopped, or its workers go on without us.
End = Literal["over", "stopped", "detached"]


def search_on(
    study: StudyWriter,
    workers: Workers,
    reporter: Reporter,
    *,
    stop: Callable[[], bool] = lambda: False,
    detach: Callable[[], bool] = lambda: False,
    storage: str | None = None,
) -> End:
    """Search with workers on a cluster until the study is over.

    Workers of an earlier session go on; no others are started beside them. If a worker's time or
    node ends while trials are left, another worker replaces it. Workers that hang after the end of
    the study are cancelled.

    Args:
        study: The study, opened by `open_study` with ``is_shared``.
        workers: Workers to request from the cluster.
        reporter: Reporter that receives the search's progress.
        stop: Returns whether to cancel the workers; called a few times a second.
        detach: Returns whether to leave the workers on the cluster and return.
        storage: URL of the study's database if it holds a password: each worker gets it as a
            secret, in `STORAGE_VARIABLE`.

    Raises:
        RequestError: The cluster can never run such workers, or another process works on this
            search already; nothing was started.
        TarmacError: The search failed, or its workers ended without training anything.
    """
    is_secret = storage is not None and has_password(storage)
    if storage is not None and is_secret:
        # Jobs read the secret from the environment variable of its name.
        os.environ[STORAGE_VARIABLE] = storage
    left = _left_behind(study, workers)
    run = left or _make_run(study, workers, is_secret=is_secret)
    with study.lock:
        study.reload()
        # Workers of an earlier session may have completed the study since.
        if left is None or study.record.status != "completed":
            study.update(status="running", ended_at=None, error=None)
    following = Following(study, reporter)
    reporter.began(study, f"by workers on {workers.on}, {len(run.tasks)} at most; {run.path}")
    leaving = _Leaving(detach)
    try:
        end: End | None = None
        while end is None:
            before = following.progress
            counts = jobs.work_on(
                run,
                following,
                stop=lambda: stop() or following.is_overdue or bool(following.why_stuck),
                detach=leaving,
            )
            following.look()
            if following.why_stuck:
                _refuse_more(run, following.why_stuck)
            end = _end_of(study, is_stopped=stop() or counts["interrupted"] > 0)
            if end is None and leaving.is_asked:
                end = "detached"
            if end is None:
                if following.progress == before:
                    _refuse_standstill(run)
                run = _make_run(study, workers, is_secret=is_secret)
    except TarmacError as error:
        study.end("failed", error=error.message)
        raise
    finally:
        reporter.ended(study)
    return end


class _Leaving:
    """A ``detach`` callback that remembers a positive answer."""

    def __init__(self, detach: Callable[[], bool]) -> None:
        self._detach = detach
        self.is_asked = False

    def __call__(self) -> bool:
        self.is_asked = self.is_asked or self._detach()
        return self.is_asked


def _end_of(study: StudyWriter, *, is_stopped: bool) -> End | None:
    """Return how a search ended once its workers have ended; None if trials are left.

    Raises:
        TarmacError: The search has failed.
    """
    study.reload()
    if study.record.status == "completed":
        return "over"
    if study.record.status == "failed":
        raise TarmacError(study.record.error or "the search failed")
    if is_stopped:
        study.end("interrupted")
        return "stopped"
    return None


def _left_behind(study: StudyWriter, workers: Workers) -> JobRun | None:
    """Return the workers of an earlier session that are still active; None without any."""
    for record in sorted((study.path / RUNS).glob("[!.]*/job-run.json"), reverse=True):
        if jobs.read_status(record.parent).is_active:
            run = jobs.find_run(str(record.parent))
            if run.executor != workers.on:
                raise RequestError(
                    f"workers of {study.name} are still on {run.executor}",
                    hint=f"Resume it there: tarmac search --resume {quoted(study.path)} "
                    f"--on {run.executor}\n"
                    f"Or cancel them first: tarmac cancel {quoted(run.path)}",
                )
            return run
    return None


def _make_run(study: StudyWriter, workers: Workers, *, is_secret: bool) -> JobRun:
    job = workers_job(study.path, workers, most_workers_of(study), has_secret_storage=is_secret)
    tasks = jobs.prepare(job, study.path, executor=workers.on)
    return jobs.create_run(job, study.path, tasks, study.path / RUNS, executor=workers.on)


def _refuse_standstill(run: JobRun) -> NoReturn:
    """Raise an error with the reason why the workers trained nothing.

    Raises:
        TarmacError: Always.
    """
    for task in jobs.read_status(run.path).tasks:
        if task.reason:
            log = run.path / "tasks" / jobs.directory_name(task.index, task.name) / "stderr"
            raise TarmacError(
                f"{task.name} trained nothing: {task.reason}{_last_line(log)}",
                hint=f"Read its log: {log}",
            )
    raise TarmacError(
        "the workers trained nothing",
        hint=f"Read their logs: tarmac logs {quoted(run.path)}",
    )


def _refuse_more(run: JobRun, why: str) -> NoReturn:
    """Raise an error for repeated retries of workers that train nothing.

    Raises:
        TarmacError: Always.
    """
    raise TarmacError(
        f"the workers train nothing: {why}",
        hint=f"Read their logs: tarmac logs {quoted(run.path)}",
    )


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f"; its last line: {lines[-1]}" if lines else ""
