"""Job files of all formats: read into Tarmac's `Job`, and written in the formats that allow it.

Example:
    >>> from tarmac.documents import parse_document
    >>> read_any(parse_document("{name: hello, command: [echo, hello]}", "job.yaml")).format
    'tarmac'
    >>> format_names()[:4]
    ('tarmac', 'shipyard', 'hkube', 'skypilot')
"""

from tarmac.formats.format import Format, Reading, Unwritable, Written
from tarmac.formats.hkube import (
    DATA_SOURCE,
    FLOW_INPUT,
    MAX_ELEMENTS,
    Algorithm,
    Edge,
    HyperParam,
    InputError,
    Node,
    Options,
    Pipeline,
    Protocol,
    Reference,
    Retry,
    TunerSpec,
    cluster_faults,
    left_out_for_hkube,
    merged,
    notes_for_hkube,
    read_algorithm,
    read_hkube,
    read_pipeline,
    read_raw_batch,
    read_reference,
    read_tuner_spec,
    references,
    takes_flow_input,
    task_id_fault,
    value_at,
    with_input,
    write_hkube,
)
from tarmac.formats.reader import is_own, read_any, read_paths, read_the_job
from tarmac.formats.registry import all_formats, find_format, format_names
from tarmac.formats.shipyard import read_shipyard

__all__ = [
    "DATA_SOURCE",
    "FLOW_INPUT",
    "MAX_ELEMENTS",
    "Algorithm",
    "Edge",
    "Format",
    "HyperParam",
    "InputError",
    "Node",
    "Options",
    "Pipeline",
    "Protocol",
    "Reading",
    "Reference",
    "Retry",
    "TunerSpec",
    "Unwritable",
    "Written",
    "all_formats",
    "cluster_faults",
    "find_format",
    "format_names",
    "is_own",
    "left_out_for_hkube",
    "merged",
    "notes_for_hkube",
    "read_algorithm",
    "read_any",
    "read_hkube",
    "read_paths",
    "read_pipeline",
    "read_raw_batch",
    "read_reference",
    "read_shipyard",
    "read_the_job",
    "read_tuner_spec",
    "references",
    "takes_flow_input",
    "task_id_fault",
    "value_at",
    "with_input",
    "write_hkube",
]
