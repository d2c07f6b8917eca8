"""The environment of a task whose script declares its own dependencies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from tarmac.environments import read_script
from tarmac.tasks.model import Input
from tarmac.tasks.surroundings import Project
from tarmac.tasks.workload_files import local_source

_PYTHON = re.compile(r"python3?")
# Characters with a meaning for a shell.
_OF_SHELLS = frozenset("|&;<>()$`\\\"'*?[#~=%!{}\n")


def script_of(command: Sequence[str]) -> str | None:
    """Return the Python file that a command starts; None without one, or if a shell must tell.

    Example:
        >>> script_of(["python", "-u", "train.py", "--epochs", "3"])
        'train.py'
        >>> script_of(["sh", "-c", "python train.py --epochs 3"])
        'train.py'
    """
    words = [*command]
    if words[:2] == ["sh", "-c"] and len(words) == 3:
        words = [] if _OF_SHELLS & {*words[2]} else words[2].split()
    if words and _PYTHON.fullmatch(words[0]):
        words = words[1:]
        while words and words[0] in ("-u", "-O", "-B", "-I"):
            words = words[1:]
    return words[0] if words and words[0].endswith(".py") else None


def script_environment(script: str, inputs: Sequence[Input], base: Path) -> Project | None:
    """Return the environment that a script declares; None where it declares none.

    Args:
        script: Path of the script: relative to the task's directory, or absolute.
        inputs: Inputs of the task; the script is looked up among their sources.
        base: Directory that relative paths of `inputs` start from.

    Raises:
        RequestError: The script's declaration is malformed.
    """
    target = PurePosixPath(script)
    paths = [local_source(task_input, target, base) for task_input in inputs]
    for path in [Path(script)] if target.is_absolute() else filter(None, paths):
        if path.is_file() and read_script(path) is not None:
            return Project(path=str(path.absolute()))
    return None
