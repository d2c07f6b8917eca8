"""YAML, JSON and TOML files with the places of their values, and amounts such as ``4GiB``.

Example:
    >>> from tarmac.documents import parse_document
    >>> document = parse_document("{memory: 4GiB}", "job.yaml")
    >>> document.value, document.place_of(("memory",))
    ({'memory': '4GiB'}, Place(line=1, column=2))
"""

from tarmac.documents.changes import change_document
from tarmac.documents.document import (
    EXTENSIONS,
    Document,
    Path,
    Place,
    show_path,
    without_extensions,
)
from tarmac.documents.parsing import parse_document, read_document, read_text
from tarmac.documents.plain import place_in, read_plain
from tarmac.documents.problems import Problem, problems_of, refuse
from tarmac.documents.quantities import (
    Bytes,
    Count,
    Cpus,
    Number,
    Seconds,
    Whole,
    parse_bytes,
    parse_cpus,
    parse_seconds,
)
from tarmac.documents.toml import parse_toml, read_toml
from tarmac.documents.writing import dump_document

__all__ = [
    "EXTENSIONS",
    "Bytes",
    "Count",
    "Cpus",
    "Document",
    "Number",
    "Path",
    "Place",
    "Problem",
    "Seconds",
    "Whole",
    "change_document",
    "dump_document",
    "parse_bytes",
    "parse_cpus",
    "parse_document",
    "parse_seconds",
    "parse_toml",
    "place_in",
    "problems_of",
    "read_document",
    "read_plain",
    "read_text",
    "read_toml",
    "refuse",
    "show_path",
    "without_extensions",
]
