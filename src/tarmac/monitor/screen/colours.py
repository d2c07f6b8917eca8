"""The colours of tones, on dark and on light backgrounds."""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from textual.theme import Theme

THEMES = {
    False: Theme(
        "tarmac-dark",
        primary="#87d7ff",
        foreground="#e4e4e4",
        background="#121212",
        surface="#1c1c1c",
        panel="#262626",
    ),
    True: Theme(
        "tarmac-light",
        primary="#00508a",
        foreground="#1c1c1c",
        background="#ffffff",
        surface="#f4f4f4",
        panel="#e8eef5",
        dark=False,
    ),
}

# Each colour has a contrast of at least 4.5 to 1 on its background, as WCAG 2.2 asks of text.
_DARK = {
    "busy": Style(color="#5fd787"),
    "free": Style(color="#9e9e9e"),
    "held": Style(color="#ffd75f", bold=True),
    "bad": Style(color="#ff8787", bold=True),
    "warn": Style(color="#ffaf5f"),
    "dim": Style(color="#9e9e9e"),
    "strong": Style(bold=True),
    "title": Style(color="#87d7ff", bold=True),
    "chosen": Style(bgcolor="#303a4c"),
    "tab": Style(color="#121212", bgcolor="#87d7ff", bold=True),
}
_LIGHT = {
    "busy": Style(color="#006b2d"),
    "free": Style(color="#5c5c5c"),
    "held": Style(color="#7a5200", bold=True),
    "bad": Style(color="#b00020", bold=True),
    "warn": Style(color="#8a4500"),
    "dim": Style(color="#5c5c5c"),
    "strong": Style(bold=True),
    "title": Style(color="#00508a", bold=True),
    "chosen": Style(bgcolor="#d5e3f5"),
    "tab": Style(color="#ffffff", bgcolor="#00508a", bold=True),
}


def styles(*, light: bool) -> Mapping[str, Style]:
    """Return the style of each tone."""
    return _LIGHT if light else _DARK


# The layout of the widgets, as a style sheet of Textual.
LAYOUT = """
Screen { background: $background; color: $foreground; }
LineBox { height: 1; }
RowsView { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
           scrollbar-size-horizontal: 0; overflow-x: hidden; background: transparent; }
.ascii RowsView { scrollbar-size-vertical: 0; }
#heading { padding-left: 1; }
#filter { height: 1; border: none; padding: 0; display: none; }
#filter.shown { display: block; }
Question, ColumnMenu { align: center middle; background: #000000 40%; }
#question, #columns { width: auto; max-width: 90%; height: auto; max-height: 90%;
                      padding: 1 2; border: ascii $primary; background: $panel; }
#question Static { width: auto; max-width: 100%; }
#columns { width: 40; height: 20; }
"""
