"""The files of a task's workload, beside the job file and in the task's directory."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from tarmac.errors import RequestError
from tarmac.files import Location, passes_over
from tarmac.tasks.model import Input
from tarmac.tasks.run_files import is_shared


def workload_in_task(reference: str) -> str:
    """Return the reference of a workload in its task's directory.

    Args:
        reference: Workload as the job file names it: a name, or ``path/to/file.py:attribute``.
    """
    path, attribute = _file_of(reference)
    if path is None or path.is_absolute() or ".." not in path.parts:
        return reference
    return f"{path.name}:{attribute}"


def workload_inputs(reference: str, inputs: Sequence[Input], base: Path) -> tuple[Input, ...]:
    """Return the inputs that stage a workload's file into its task's directory.

    These are the file and the files beside it that it imports. There are none if its path is
    absolute, if it is not beside the job file, or if an input brings it already.

    Args:
        reference: Workload as a job file names it: a name, or ``path/to/file.py:attribute``.
        inputs: Inputs of the task, which may already bring the workload's file.
        base: Directory that the file's path starts from: the job file's directory.
    """
    path, _ = _file_of(reference)
    if path is None or path.is_absolute() or not (base / path).is_file():
        return ()
    target = PurePosixPath(workload_in_task(reference).rpartition(":")[0])
    if any(_brings(task_input, target, base) for task_input in inputs):
        return ()
    start = (base / path).parent
    return tuple(
        Input.model_validate(
            {
                "from": str(path.parent / name),
                "to": str(target.parent / name),
                "exclude": _CACHES if (start / name).is_dir() else (),
            }
        )
        for name in (path.name, *_neighbours(base / path))
    )


def refuse_missing_workload(
    reference: str, inputs: Sequence[Input], base: Path, *, is_here: bool
) -> None:
    """Raise a RequestError where a task's workload is missing, before anything starts.

    Args:
        reference: Workload as the task names it, in the task's directory.
        inputs: Inputs of the task, including those that `workload_inputs` adds.
        base: Directory of the job file.
        is_here: Whether the task runs here. Elsewhere only the node knows an absolute path.
    """
    from tarmac.workloads import check_reference  # noqa: PLC0415 - only jobs that train need it

    check_reference(reference)
    path, _ = _file_of(reference)
    if path is None:
        return
    if path.is_absolute():
        if is_here and not path.is_file():
            raise RequestError(f"workload file {str(path)!r} does not exist")
    elif not any(_brings(task_input, PurePosixPath(path), base) for task_input in inputs):
        raise RequestError(
            f"workload file {str(path)!r} does not exist beside the job file",
            hint=f"Looked for {base / path}",
        )


def _file_of(reference: str) -> tuple[Path | None, str]:
    """Return the file and the attribute that a reference names; a bare name has no file."""
    path, separator, attribute = reference.rpartition(":")
    return (Path(path), attribute) if separator and path.endswith(".py") else (None, reference)


def _brings(task_input: Input, target: PurePosixPath, base: Path) -> bool:
    """Whether an input brings, or may bring, a file; an unfetched input may."""
    return not _is_known(task_input) or local_source(task_input, target, base) is not None


def _is_known(task_input: Input) -> bool:
    local = Location.parse(task_input.source).is_local
    return local and not task_input.unpack and not is_shared(task_input.source)


def local_source(task_input: Input, target: PurePosixPath, base: Path) -> Path | None:
    """Return the local file that an input copies to a path in the task's directory, else None.

    Args:
        task_input: Input that may bring the file.
        target: Path of the file in the task's directory.
        base: Directory that a relative path of the input starts from.
    """
    if not _is_known(task_input):
        return None
    source = Location.parse(task_input.source).below(base)
    to = PurePosixPath(task_input.to or source.name)
    if source.is_dir():
        path = source / target.relative_to(to) if target.is_relative_to(to) else None
        return path if path is not None and path.is_file() else None
    is_there = to == target or (str(to) == "." and source.name == str(target))
    return source if is_there else None


_CACHES = ("*.pyc",)
_MAX_NEIGHBOURS = 1000


def _neighbours(file: Path) -> tuple[str, ...]:
    """Return the modules and packages beside a file that it imports, directly or indirectly.

    The standard library is left out: it comes first on a workload's path.
    """
    neighbours: dict[str, None] = {}
    ahead = [file]
    while ahead and len(neighbours) < _MAX_NEIGHBOURS:
        for module in _imported(ahead.pop()):
            if module in sys.stdlib_module_names:
                continue
            single, package = file.parent / f"{module}.py", file.parent / module
            name = module if (package / "__init__.py").is_file() else single.name
            if name in neighbours or single == file or not (file.parent / name).exists():
                continue
            if passes_over(file.parent / name):
                continue
            neighbours[name] = None
            ahead += [single] if name == single.name else [*package.rglob("*.py")]
    return tuple(neighbours)


def _imported(file: Path) -> Iterator[str]:
    """Yield the top-level names of all modules that a file imports."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        # The training will report the error.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]
