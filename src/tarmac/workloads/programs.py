"""Python files by their syntax alone: whether one can hold a workload.

Importing a program to look for a workload would run it from end to end.
"""

from __future__ import annotations

import ast
import symtable
import sys
from importlib.metadata import packages_distributions, requires
from importlib.util import decode_source, find_spec
from typing import TYPE_CHECKING

from tarmac.distribution import DISTRIBUTION, package_of
from tarmac.errors import RequestError, quoted, unknown_name
from tarmac.files import job_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What makes names, or brings modules, that the syntax does not show.
_DYNAMIC = {"__getattr__", "__import__", "exec", "eval", "globals", "import_module", "setattr"}


def refuse_program(path: Path, attribute: str | None) -> None:
    """Refuse a Python file that holds no workload, as far as its syntax tells; run nothing of it.

    Args:
        path: The file. One that is no Python is left to who imports it.
        attribute: The workload's name in it; None where the file alone was named.

    Raises:
        RequestError: It is a program, it binds no such name, or it was named alone or is no Python.
    """
    try:
        source = decode_source(path.read_bytes())
        tree = ast.parse(source)
        bound = _bound_names(tree, symtable.symtable(source, str(path), "exec"))
    except SyntaxError as error:
        if attribute is None:
            line = f":{error.lineno}" if error.lineno else ""
            raise RequestError(f"{path}{line}: it cannot be read as Python: {error.msg}") from error
        return
    except (OSError, ValueError, RecursionError):
        return
    may_hold = bound is None or _may_hold(tree, path.parent)
    if attribute is not None and (bound is None or attribute in bound):
        # What is missing may hold one too: its import says which module that is.
        if not may_hold and not _missing(tree, path.parent):
            raise _is_program(path, [])
        return
    made = [*_made(tree)]
    if not may_hold or (bound is not None and not made):
        raise _is_program(path, _missing(tree, path.parent))
    if attribute is not None:
        raise unknown_name(f"workload in {path}", attribute, dict.fromkeys(made, ""))
    name = made[0] if made and "workload" not in made else "workload"
    raise RequestError(
        f"workload {str(path)!r} names a file only",
        hint=f"Name the workload in it too: {quoted(path)}:{name}",
    )


def _is_program(path: Path, missing: list[str]) -> RequestError:
    lines = [
        "To run it as a job, write job.yaml beside it and type: tarmac run job.yaml",
        job_lines(path, "python"),
    ]
    if missing:
        packages = ", ".join(sorted(map(package_of, missing)))
        lines += [
            f"This Python lacks {', '.join(missing)}. If that of the job does too, add:",
            f"  environment: {{requirements: [{packages}]}}",
        ]
    lines.append("To train its network as a workload, on all devices: docs/take-over.md")
    return RequestError(f"{path} is a program, which holds no workload", hint="\n".join(lines))


def _bound_names(tree: ast.Module, table: symtable.SymbolTable) -> frozenset[str] | None:
    """Return the names that a module binds; None where the syntax does not tell all of them."""
    if any(
        (isinstance(node, ast.ImportFrom) and node.names[0].name == "*")
        or (isinstance(node, ast.FunctionDef) and node.name in _DYNAMIC)
        or _name_of(node) in _DYNAMIC
        for node in ast.walk(tree)
    ):
        return None
    globals_ = {n for node in ast.walk(tree) if isinstance(node, ast.Global) for n in node.names}
    symbols = (
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    )
    return frozenset({*symbols, *globals_})


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _made(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module gives to what a call returns, or to another's workload."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            yield from [node.target.id] if isinstance(node.target, ast.Name) else []
        elif isinstance(node, ast.ImportFrom):
            aliases = (alias for alias in node.names if alias.name.endswith("workload"))
            yield from (a.asname or a.name for a in aliases if not a.name.startswith("find"))


def _imported(tree: ast.Module) -> dict[str, None]:
    """Return the first parts of the modules that a file imports; a relative one's is empty."""
    roots: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= dict.fromkeys(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            roots["" if node.level else (node.module or "").partition(".")[0]] = None
    return roots


def _may_hold(tree: ast.Module, folder: Path) -> bool:
    """Whether anything that a file imports is Tarmac's, or may use it."""
    if any(_name_of(node) in {"__import__", "exec", "import_module"} for node in ast.walk(tree)):
        return True
    distributions = packages_distributions()
    for root in _imported(tree):
        if root in {"", "tarmac"} or _is_beside(root, folder):
            return True
        needed = [need for name in distributions.get(root, ()) for need in requires(name) or ()]
        if any(need.lower().replace("_", "-").startswith(DISTRIBUTION) for need in needed):
            return True
        if root not in {*sys.stdlib_module_names, *distributions} and _is_here(root):
            # From a directory on the path: nobody says what it needs.
            return True
    return False


def _missing(tree: ast.Module, folder: Path) -> list[str]:
    """Return which modules that a file imports this Python does not have."""
    others = (root for root in _imported(tree) if root and not _is_beside(root, folder))
    return [root for root in others if not _is_here(root)]


def _is_here(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:
        # Modules like `__main__` have none.
        return True


def _is_beside(module: str, folder: Path) -> bool:
    return (folder / f"{module}.py").is_file() or (folder / module).is_dir()
