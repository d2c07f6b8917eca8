"""What `tarmac top` shows, as lines of text with tones: pure, for the plain table and the screen.

A tone says what a text means (``held``, ``bad``), not which colour it has; letters say the same, so
that nothing is lost without colours.
"""

from tarmac.monitor.drawing.gpus import gpus_view as gpus_view
from tarmac.monitor.drawing.hosts import finding_lines as finding_lines
from tarmac.monitor.drawing.hosts import head_line as head_line
from tarmac.monitor.drawing.hosts import hosts_view as hosts_view
from tarmac.monitor.drawing.hosts import trouble_lines as trouble_lines
from tarmac.monitor.drawing.lines import Line as Line
from tarmac.monitor.drawing.lines import Row as Row
from tarmac.monitor.drawing.lines import Span as Span
from tarmac.monitor.drawing.look import IDLE_AFTER_S as IDLE_AFTER_S
from tarmac.monitor.drawing.look import Look as Look
from tarmac.monitor.drawing.look import View as View
from tarmac.monitor.drawing.quantities import UNKNOWN as UNKNOWN
from tarmac.monitor.drawing.quantities import count as count
from tarmac.monitor.drawing.quantities import decimal as decimal
from tarmac.monitor.drawing.quantities import duration as duration
from tarmac.monitor.drawing.quantities import gib as gib
from tarmac.monitor.drawing.quantities import percent as percent
from tarmac.monitor.drawing.quantities import watt_hours as watt_hours
from tarmac.monitor.drawing.quantities import whole as whole
from tarmac.monitor.drawing.runs import runs_view as runs_view
from tarmac.monitor.drawing.runs import tasks_view as tasks_view
