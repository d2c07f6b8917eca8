"""Conversion of HKube's algorithm definitions and pipelines to jobs and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tarmac.documents import Document
from tarmac.errors import RequestError
from tarmac.formats.format import Format, Reading, Written
from tarmac.formats.hkube.algorithm import Algorithm, Protocol, read_algorithm
from tarmac.formats.hkube.fields import NAME, looks_like_hkube
from tarmac.formats.hkube.library import definitions_beside
from tarmac.formats.hkube.pipeline import Edge, Node, Options, Pipeline, Retry
from tarmac.formats.hkube.pipeline_jobs import complete_job, has_runs, read_runs
from tarmac.formats.hkube.pipeline_reading import read_pipeline
from tarmac.formats.hkube.pipeline_rules import cluster_faults
from tarmac.formats.hkube.reading import read_hkube
from tarmac.formats.hkube.references import (
    DATA_SOURCE,
    FLOW_INPUT,
    MAX_ELEMENTS,
    Reference,
    read_raw_batch,
    read_reference,
    references,
    value_at,
)
from tarmac.formats.hkube.requests import (
    InputError,
    merged,
    takes_flow_input,
    task_id_fault,
    with_input,
)
from tarmac.formats.hkube.tuner_spec import HyperParam, TunerSpec, read_tuner_spec
from tarmac.formats.hkube.writing import (
    left_out_for_hkube,
    notes_for_hkube,
    write_hkube,
    write_pipeline,
)
from tarmac.formats.original import original_of
from tarmac.jobs import Job

__all__ = [
    "DATA_SOURCE",
    "FLOW_INPUT",
    "HKUBE",
    "MAX_ELEMENTS",
    "Algorithm",
    "Edge",
    "HyperParam",
    "InputError",
    "Node",
    "Options",
    "Pipeline",
    "Protocol",
    "Reference",
    "Retry",
    "TunerSpec",
    "cluster_faults",
    "complete_job",
    "definitions_beside",
    "left_out_for_hkube",
    "merged",
    "notes_for_hkube",
    "read_algorithm",
    "read_hkube",
    "read_pipeline",
    "read_raw_batch",
    "read_reference",
    "read_tuner_spec",
    "references",
    "takes_flow_input",
    "task_id_fault",
    "value_at",
    "with_input",
    "write_hkube",
]


def _read(documents: Sequence[Document], environment: Mapping[str, str]) -> Reading:
    del environment
    document = documents[-1]
    if has_runs(document.value):
        return read_runs(documents)
    jobs, notes = read_hkube(document)
    return Reading(NAME, jobs, notes, [refusal for job in jobs for refusal in job.refusals])


def _write(jobs: Sequence[Job], directory: Path) -> Written:
    del directory
    for job in jobs:
        # HKube may run its own definition even if Tarmac refuses it.
        if job.refusals and original_of(job, NAME) is None:
            first, *rest = job.refusals
            raise RequestError(
                f"{job.name} cannot be run here, nor by HKube: {first}",
                hint="\n".join(rest) or None,
            )
    definitions = [
        write_hkube(job) if job.pipeline is None else write_pipeline(job) for job in jobs
    ]
    value = definitions[0] if len(definitions) == 1 else definitions
    notes = [note for job in jobs for note in notes_for_hkube(job)]
    return Written(f"{json.dumps(value, indent=2)}\n", notes)


HKUBE = Format(
    name=NAME,
    title="HKube",
    looks_like=looks_like_hkube,
    read=_read,
    write=_write,
    joins=lambda value: not has_runs(value),
    siblings=definitions_beside,
)
