"""Letters and tones of states; a letter has the same meaning as its colour."""

from __future__ import annotations

from tarmac.monitor.drawing.lines import Span

_GPU = {
    "busy": Span("B", "busy"),
    "free": Span("F", "free"),
    "held": Span("I", "held"),
    "bad": Span("!", "bad"),
}
_WORK = {
    "busy": Span("B", "busy"),
    "warming": Span("W", "busy"),
    "idle": Span("I", "held"),
    "hung": Span("H", "bad"),
    "unreadable": Span("!", "bad"),
    "waiting": Span("Q", "free"),
    "ended": Span("E", "dim"),
}
_UNKNOWN = Span("?", "dim")

# The meanings of the letters, for the help.
LETTERS = (
    ("B", "busy"),
    ("W", "work that has not done its first step"),
    ("F", "free: idle, and not allocated"),
    ("I", "idle, but allocated"),
    ("H", "hung: no sign of life"),
    ("Q", "waits in a queue"),
    ("E", "has ended in the last minutes"),
    ("!", "something is wrong with it"),
    ("?", "not known"),
)


def gpu_state(state: str | None) -> Span:
    """Return the letter of a GPU's state."""
    return _GPU.get(state or "", _UNKNOWN)


def work_state(state: str) -> Span:
    """Return the letter of a work's state."""
    return _WORK.get(state, _UNKNOWN)
