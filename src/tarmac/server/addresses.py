"""The addresses of pages.

Example:
    >>> run_address("a study/best/winner")
    '/runs/a%20study/best/winner/'
    >>> compare_address(["a", "b"])
    '/compare?run=a&run=b'
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from tarmac.pages import Link

# Links at the top of every page.
LINKS = (
    Link("Runs", "/"),
    Link("Jobs", "/jobs"),
    Link("Searches", "/searches"),
    Link("GPUs", "/gpus"),
)


def run_address(name: str) -> str:
    """Return the address of a run's page; relative links in the page start from it."""
    # A directory's name may have bytes that are not UTF-8.
    return f"/runs/{quote(os.fsencode(name))}/"


def log_address(name: str, file: str) -> str:
    """Return the address of the page for a log file of a run."""
    return f"{run_address(name)}log?{urlencode({'file': os.fsencode(file)})}"


def compare_address(names: Sequence[str]) -> str:
    """Return the address of a page that compares runs."""
    return f"/compare?{urlencode([('run', os.fsencode(name)) for name in names])}"


def list_address(path: str, query: Mapping[str, object]) -> str:
    """Return the address of a list, without empty parameters."""
    parameters = {key: value for key, value in query.items() if value}
    return f"{path}?{urlencode(parameters)}" if parameters else path
