"""The lines of `tarmac top`, as text with tones, for the plain table and the screen; pure.

A tone is the meaning of a text (``held``, ``bad``), not its colour. Letters have the same meaning,
so that nothing is lost without colours.
"""

from tarmac.monitor.drawing.gpus import gpus_view
from tarmac.monitor.drawing.hosts import finding_lines, head_line, hosts_view, trouble_lines
from tarmac.monitor.drawing.lines import Line, Row, Span
from tarmac.monitor.drawing.look import IDLE_AFTER_S, Look, View
from tarmac.monitor.drawing.quantities import (
    UNKNOWN,
    count,
    decimal,
    duration,
    gib,
    percent,
    watt_hours,
    whole,
)
from tarmac.monitor.drawing.runs import runs_view, tasks_view

__all__ = [
    "IDLE_AFTER_S",
    "UNKNOWN",
    "Line",
    "Look",
    "Row",
    "Span",
    "View",
    "count",
    "decimal",
    "duration",
    "finding_lines",
    "gib",
    "gpus_view",
    "head_line",
    "hosts_view",
    "percent",
    "runs_view",
    "tasks_view",
    "trouble_lines",
    "watt_hours",
    "whole",
]
