"""Checking: does every framework compute on every device, right and fast? Else what to type."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tarmac.checks.cached import quick_check
from tarmac.checks.frameworks import FRAMEWORKS
from tarmac.checks.report.report import Report, Requirement, Verdict
from tarmac.checks.rules.catalogue import Failure, find_failure, read_catalogue
from tarmac.checks.rules.findings import Finding
from tarmac.checks.verb import check

__all__ = [
    "FRAMEWORKS",
    "Failure",
    "Finding",
    "Report",
    "Requirement",
    "Verdict",
    "check",
    "find_failure",
    "quick_check",
    "read_catalogue",
]


class _Verb(ModuleType):
    """Lets ``tarmac.check(...)`` check although importing this package binds that name to it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        return check(*args, **kwargs)


sys.modules[__name__].__class__ = _Verb
