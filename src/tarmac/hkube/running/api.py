"""The Python API of pipelines: one call from a file to its results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.formats import read_the_job, with_input
from tarmac.hkube.running.observer import Silent
from tarmac.hkube.running.verb import prepare_pipeline, work_on_pipeline
from tarmac.jobs import Job, create_run, read_secret_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.documents import Document
    from tarmac.hkube.running.observer import Observer
    from tarmac.hkube.running.outcome import PipelineEnd
    from tarmac.jobs import Secret


def run_pipeline(
    job: Job | str | Path,
    *,
    given: Any = None,
    algorithms: str | Path | None = None,
    base: str | Path = ".",
    output: str | Path | None = None,
    concurrency: int | None = None,
    fake_gpus: int = 0,
    secrets: Mapping[str, Secret] | None = None,
    observer: Observer | None = None,
) -> PipelineEnd:
    """Run an HKube pipeline, or an algorithm with an input, to its end.

    Args:
        job: A file of a pipeline or of an algorithm's definition; or a job that has a pipeline.
        given: Input, only with a file: the pipeline's ``flowInput``, or the algorithm's input list,
            alone or as ``{"input": [...], "taskId": ...}``.
        algorithms: The folder with definitions that the pipeline names; by default the file's.
        base: What a job's relative paths start from; the file's directory where it is a file.
        output: Where the run's directory is made; by default ``TARMAC_RUNS`` or ``./runs``.
        concurrency: Most instances of algorithms at once. Default: as many as fit.
        fake_gpus: Number of GPUs to pretend on this machine. Default 0: use the real ones.
        secrets: What named secrets stand for here, on top of the user's configuration.
        observer: Receives progress; default none.

    Returns:
        How it ended, with its results.

    Raises:
        RequestError: It cannot be done; nothing was started.
        TarmacError: It has failed.

    Example:
        >>> from tarmac.hkube import run_pipeline
        >>> run_pipeline("double.json", given=[21]).result  # doctest: +SKIP
        42
    """
    if not isinstance(job, Job):
        base = Path(job).resolve().parent
        job = _read(Path(job), given, None if algorithms is None else Path(algorithms))
    elif given is not None or algorithms is not None:
        raise RequestError("a job has its input and its algorithms in it", hint="Give its file.")
    mapping = read_secret_mapping() | dict(secrets or {})
    prepare_pipeline(job, Path(base), mapping, fake_gpus=fake_gpus)
    run = create_run(job, Path(base), (), None if output is None else Path(output))
    end = work_on_pipeline(
        run,
        observer or Silent(),
        concurrency=concurrency,
        fake_gpus=fake_gpus,
        secrets=mapping,
    )
    if end.outcome != "succeeded":
        raise TarmacError(
            f"{job.name}: {end.reason}",
            hint=f"Again what has not succeeded: tarmac run --resume {quoted(run.path)}",
        )
    return end


def _read(path: Path, given: Any, algorithms: Path | None) -> Job:
    def change(document: Document) -> Document:
        return document if given is None else with_input(document, given)

    folders = [] if algorithms is None else [algorithms]
    return read_the_job(path, change=change, environment=os.environ, folders=folders)
