"""Job files for programs, for errors about a program in the place of another file."""

from __future__ import annotations

import re
from pathlib import Path

from tarmac.errors import quoted


def job_name(text: str) -> str:
    """Return a text with only the characters of a job's name; the result may be empty."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")


def job_lines(program: Path, runs_it: str) -> str:
    """Return the two lines of a job file for a program, indented by two spaces.

    Args:
        program: File of the program. Its name without suffix becomes the job's name.
        runs_it: Command that runs the program, such as ``python``.
    """
    name = job_name(program.stem) or "program"
    command = f"{runs_it} {quoted(program.resolve())}"
    if ": " in command or " #" in command:
        # In plain YAML these would end the value; in single quotes only a quote would.
        command = "'" + command.replace("'", "''") + "'"
    return f"  name: {name}\n  command: {command}"
