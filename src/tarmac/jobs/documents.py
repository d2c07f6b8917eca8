"""For readers of other formats: documents that know where their values are."""

from tarmac.jobs._document import (
    Document,
    Place,
    Problem,
    parse_document,
    problems_of,
    read_document,
    refuse,
    show_path,
)
from tarmac.jobs._read import job_of

__all__ = [
    "Document",
    "Place",
    "Problem",
    "job_of",
    "parse_document",
    "problems_of",
    "read_document",
    "refuse",
    "show_path",
]
