"""The output formats of a report for other programs, by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tarmac.checks.report.brief import render_brief
from tarmac.checks.report.junit import render_junit
from tarmac.checks.report.nagios import nagios_status, render_nagios
from tarmac.checks.report.prometheus import render_prometheus

if TYPE_CHECKING:
    from tarmac.checks.report.model import Report


@dataclasses.dataclass(frozen=True)
class Form:
    """An output format of a report.

    Attributes:
        render: Returns the report's text, with a newline at the end.
        exit_code: Returns the exit code of the command. Default: the report's own.
    """

    render: Callable[[Report], str]
    exit_code: Callable[[Report], int] = lambda report: report.exit_code


def _render_json(report: Report) -> str:
    # Rendered by the model first, which writes null for NaN: JSON has no NaN.
    facts = json.loads(report.model_dump_json())
    return json.dumps({"ok": report.ok, "exit_code": report.exit_code, **facts}, indent=2) + "\n"


FORMS: Mapping[str, Form] = {
    "brief": Form(lambda report: f"{render_brief(report)}\n"),
    "json": Form(_render_json),
    "junit": Form(render_junit),
    "nagios": Form(render_nagios, nagios_status),
    "prometheus": Form(render_prometheus),
}
