"""Pipelines read from plain values and checked as by HKube."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tarmac.documents import Document, Problem, problems_of, refuse, show_path
from tarmac.formats.hkube.fields import Path
from tarmac.formats.hkube.pipeline import Pipeline
from tarmac.formats.hkube.pipeline_rules import pipeline_faults


def read_pipeline(body: Mapping[str, Any]) -> Pipeline:
    """Read a pipeline from plain values.

    Args:
        body: Pipeline in the form of HKube's API.

    Raises:
        RequestError: HKube would refuse the pipeline. The error lists the problems by their paths
            in the pipeline. References to missing values of the run's input are not checked.
    """
    value = dict(body)
    document = Document(f"pipeline {value.get('name', 'without a name')}", value)
    problems: list[Problem] = []
    pipeline = check_pipeline(document, (), value, problems)
    if pipeline is None:
        raise refuse(document, problems)
    return pipeline


def check_pipeline(
    document: Document, path: Path, value: Any, problems: list[Problem]
) -> Pipeline | None:
    """Read a pipeline of a document.

    Args:
        document: Document that holds the pipeline, for lines and columns in messages.
        path: Keys that lead to the pipeline in the document.
        value: Pipeline as plain values, before validation.
        problems: List to which every problem is appended.

    Returns:
        The pipeline, or None if there is a problem.
    """
    before = len(problems)
    pipeline: Pipeline | None = None
    try:
        pipeline = Pipeline.model_validate(value)
    except ValidationError as error:
        problems += problems_of(error, document, Pipeline, path)
    else:
        problems += [
            Problem(document.place_of((*path, *inner)), show_path((*path, *inner)), message)
            for inner, message in pipeline_faults(pipeline)
        ]
    return pipeline if len(problems) == before else None
