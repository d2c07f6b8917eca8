"""The Python API of pipelines: a single call from a file to its results."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarmac.documents import Document
from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.formats import read_the_job, with_input
from tarmac.hkube.running.observer import Observer, Silent
from tarmac.hkube.running.outcome import PipelineEnd
from tarmac.hkube.running.verb import prepare_pipeline, work_on_pipeline
from tarmac.jobs import Job, RunRequest, Secret, create_run, read_secret_mapping


def run_pipeline(
    job: Job | str | Path,
    *,
    input_data: Any = None,
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
        job: Job with a pipeline, or path of a pipeline or an algorithm's definition.
        input_data: Input, only with a file: the pipeline's ``flowInput``, or the algorithm's input
            list, alone or as ``{"input": [...], "taskId": ...}``.
        algorithms: Folder of the definitions that the pipeline names. Default: the file's folder.
        base: Directory that a job's relative paths start from. With a file: the file's directory.
        output: Parent of the run's directory. Default: ``TARMAC_RUNS`` or ``./runs``.
        concurrency: Most instances of algorithms at once. Default: as many as fit.
        fake_gpus: Number of GPUs to pretend on this machine. Default 0: use the real ones.
        secrets: Sources of secrets by name, in addition to the user's configuration.
        observer: Receives the run's progress. Default: no observer.

    Returns:
        The end of the run, with its results.

    Raises:
        RequestError: The pipeline cannot run; nothing was started.
        TarmacError: The run failed.

    Example:
        >>> from tarmac.hkube import run_pipeline
        >>> run_pipeline("double.json", input_data=[21]).result  # doctest: +SKIP
        42
    """
    if not isinstance(job, Job):
        base = Path(job).resolve().parent
        job = _read(Path(job), input_data, None if algorithms is None else Path(algorithms))
    elif input_data is not None or algorithms is not None:
        raise RequestError(
            "a Job already contains its input and its algorithms", hint="Pass the path of its file."
        )
    request = RunRequest(
        output=None if output is None else Path(output),
        concurrency=concurrency,
        fake_gpus=fake_gpus,
        secrets=read_secret_mapping() | dict(secrets or {}),
    )
    prepare_pipeline(job, Path(base), request)
    run = create_run(job, Path(base), (), request.output)
    end = work_on_pipeline(run, observer or Silent(), request)
    if end.outcome != "succeeded":
        raise TarmacError(
            f"{job.name}: {end.reason}",
            hint=f"Run the failed tasks again: tarmac run --resume {quoted(run.path)}",
        )
    return end


def _read(path: Path, input_data: Any, algorithms: Path | None) -> Job:
    def change(document: Document) -> Document:
        return document if input_data is None else with_input(document, input_data)

    folders = [] if algorithms is None else [algorithms]
    return read_the_job(path, change=change, environment=os.environ, folders=folders)
