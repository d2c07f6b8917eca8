"""The help on keys and letters."""

from __future__ import annotations

from tarmac.monitor.drawing import Row, Span
from tarmac.monitor.drawing.states import LETTERS

_KEYS = (
    ("1 2 3 4", "GPUs, runs, tasks, hosts; Tab goes to the next"),
    ("Up Down", "choose a row; j and k too, and the mouse"),
    ("Enter", "its details, with plots and the end of its log; or click twice"),
    ("t", "the tree of its processes"),
    ("e", "the environment of its process, secrets hidden"),
    ("l", "the end of its log"),
    ("c", "what the last check and the driver have found"),
    ("/", "show only rows with some text; Esc shows all"),
    ("o", "which columns to show"),
    ("Space", "mark a row; s, T and K then act on all that are marked"),
    ("p", "pause, and go on"),
    ("s", "stop a training with a checkpoint, a search or a job; asks first"),
    ("T", "SIGTERM to its processes; asks first"),
    ("K", "SIGKILL to its processes: nothing is saved; asks first"),
    ("q", "leave; running work is not affected"),
)


def help_rows() -> list[Row]:
    """Return the rows of the help page."""
    rows = [Row((), (Span(f"{keys:<9}", "strong"), Span(text))) for keys, text in _KEYS]
    rows.append(Row((), ()))
    rows.append(Row((), (Span("Letters beside GPUs and work:", "dim"),)))
    rows += [Row((), (Span(f"{letter:<9}", "strong"), Span(text))) for letter, text in LETTERS]
    return rows
