"""HKube's algorithm definitions, to and from jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.formats.format import Format, Reading, Written
from tarmac.formats.hkube.algorithm import Algorithm as Algorithm
from tarmac.formats.hkube.algorithm import Protocol as Protocol
from tarmac.formats.hkube.algorithm import read_algorithm as read_algorithm
from tarmac.formats.hkube.fields import NAME, looks_like_hkube
from tarmac.formats.hkube.library import definitions_beside as definitions_beside
from tarmac.formats.hkube.pipeline import Edge as Edge
from tarmac.formats.hkube.pipeline import Node as Node
from tarmac.formats.hkube.pipeline import Options as Options
from tarmac.formats.hkube.pipeline import Pipeline as Pipeline
from tarmac.formats.hkube.pipeline import Retry as Retry
from tarmac.formats.hkube.pipeline_jobs import complete_job as complete_job
from tarmac.formats.hkube.pipeline_jobs import has_runs, read_runs
from tarmac.formats.hkube.pipeline_reading import read_pipeline as read_pipeline
from tarmac.formats.hkube.pipeline_rules import cluster_faults as cluster_faults
from tarmac.formats.hkube.reading import read_hkube as read_hkube
from tarmac.formats.hkube.references import DATA_SOURCE as DATA_SOURCE
from tarmac.formats.hkube.references import FLOW_INPUT as FLOW_INPUT
from tarmac.formats.hkube.references import MAX_ELEMENTS as MAX_ELEMENTS
from tarmac.formats.hkube.references import Reference as Reference
from tarmac.formats.hkube.references import read_raw_batch as read_raw_batch
from tarmac.formats.hkube.references import read_reference as read_reference
from tarmac.formats.hkube.references import references as references
from tarmac.formats.hkube.references import value_at as value_at
from tarmac.formats.hkube.requests import InputError as InputError
from tarmac.formats.hkube.requests import merged as merged
from tarmac.formats.hkube.requests import takes_flow_input as takes_flow_input
from tarmac.formats.hkube.requests import task_id_fault as task_id_fault
from tarmac.formats.hkube.requests import with_input as with_input
from tarmac.formats.hkube.tuner_spec import HyperParam as HyperParam
from tarmac.formats.hkube.tuner_spec import TunerSpec as TunerSpec
from tarmac.formats.hkube.tuner_spec import read_tuner_spec as read_tuner_spec
from tarmac.formats.hkube.writing import left_out_for_hkube as left_out_for_hkube
from tarmac.formats.hkube.writing import notes_for_hkube as notes_for_hkube
from tarmac.formats.hkube.writing import write_hkube as write_hkube
from tarmac.formats.hkube.writing import write_pipeline
from tarmac.formats.original import original_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tarmac.documents import Document
    from tarmac.jobs import Job


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
        # What HKube's own definition is refused for here, HKube may do.
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
