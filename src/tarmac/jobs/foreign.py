"""For readers of other formats: documents that know where their values are."""

from tarmac.documents import (
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
from tarmac.jobs.containers import WORK
from tarmac.jobs.graph import circle_of
from tarmac.jobs.placeholders import escape
from tarmac.jobs.reader import job_of

__all__ = [
    "WORK",
    "Document",
    "Place",
    "Problem",
    "change_document",
    "circle_of",
    "dump_document",
    "escape",
    "job_of",
    "parse_document",
    "problems_of",
    "read_document",
    "refuse",
    "show_path",
]
