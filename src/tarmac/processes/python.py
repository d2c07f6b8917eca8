"""The command line of a Python process that is Tarmac's own.

Python looks for modules in the current directory first, in ``-m`` and ``-c`` alike: a user's
``types.py`` there would replace the library's in every process that Tarmac starts.

Example:
    >>> python_command("tarmac", "top", python="python3")
    ['python3', '-P', '-m', 'tarmac', 'top']
"""

from __future__ import annotations

import sys


def python_command(module: str, *arguments: str, python: str | None = None) -> list[str]:
    """Return the command that runs an installed module, whatever the current directory holds.

    Args:
        module: Its name, as for ``python -m``.
        arguments: What its ``sys.argv`` has after its name.
        python: An interpreter from 3.11 on, which ``-P`` needs. Default: this process's.
    """
    return [python or sys.executable, "-P", "-m", module, *arguments]
