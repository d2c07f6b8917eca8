"""Job files of all systems: read into Tarmac's `Job`, and written back.

Example:
    >>> from tarmac.documents import parse_document
    >>> read_any(parse_document("{name: hello, command: [echo, hello]}", "job.yaml")).format
    'tarmac'
    >>> format_names()[:3]
    ('tarmac', 'shipyard', 'hkube')
"""

from tarmac.formats.format import Format, Reading, Written
from tarmac.formats.hkube import left_out_for_hkube, notes_for_hkube, read_hkube, write_hkube
from tarmac.formats.reader import read_any, read_paths
from tarmac.formats.registry import all_formats, find_format, format_names
from tarmac.formats.shipyard import read_shipyard, write_shipyard

__all__ = [
    "Format",
    "Reading",
    "Written",
    "all_formats",
    "find_format",
    "format_names",
    "left_out_for_hkube",
    "notes_for_hkube",
    "read_any",
    "read_hkube",
    "read_paths",
    "read_shipyard",
    "write_hkube",
    "write_shipyard",
]
