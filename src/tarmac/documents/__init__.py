"""YAML and JSON files that know where their values are; amounts as people write them.

Example:
    >>> from tarmac.documents import parse_document
    >>> document = parse_document("{memory: 4GiB}", "job.yaml")
    >>> document.value, document.place_of(("memory",))
    ({'memory': '4GiB'}, Place(line=1, column=2))
"""

from tarmac.documents.document import (
    Document,
    Place,
    Problem,
    change_document,
    dump_document,
    parse_document,
    problems_of,
    read_document,
    refuse,
    show_path,
)
from tarmac.documents.quantities import (
    Bytes,
    Cpus,
    Seconds,
    parse_bytes,
    parse_cpus,
    parse_seconds,
)

__all__ = [
    "Bytes",
    "Cpus",
    "Document",
    "Place",
    "Problem",
    "Seconds",
    "change_document",
    "dump_document",
    "parse_bytes",
    "parse_cpus",
    "parse_document",
    "parse_seconds",
    "problems_of",
    "read_document",
    "refuse",
    "show_path",
]
