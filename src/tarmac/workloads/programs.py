"""Decide from its syntax whether a Python file can hold a workload.

Importing a program to look for a workload would run the whole program.
"""

from __future__ import annotations

import ast
import symtable
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from importlib.util import decode_source, find_spec
from pathlib import Path

from tarmac.distribution import DISTRIBUTION, package_of
from tarmac.errors import RequestError, quoted, unknown_name
from tarmac.files import job_lines

# Functions that bind names or import modules without a trace in the syntax.
_DYNAMIC = {"__getattr__", "__import__", "exec", "eval", "globals", "import_module", "setattr"}


def refuse_program(path: Path, attribute: str | None) -> None:
    """Raise a RequestError if the syntax of a Python file rules out a workload; run no code.

    Args:
        path: Path of the file. With an ``attribute``, files that cannot be parsed are accepted,
            because importing them reports the error.
        attribute: Name of the workload in the file. None: the user named only the file.

    Raises:
        RequestError: The file is a program or does not bind the name. Without ``attribute``,
            always, unless the file cannot be read.
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
        # A missing module may hold a workload too: importing the file names the module.
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
    return RequestError(f"{path} is a program that defines no workload", hint="\n".join(lines))


def _bound_names(tree: ast.Module, table: symtable.SymbolTable) -> frozenset[str] | None:
    """Return the names that a module binds; None if the syntax does not show all of them."""
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
    """Yield the names that a module assigns from calls, and the workloads that it imports."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            yield from [node.target.id] if isinstance(node.target, ast.Name) else []
        elif isinstance(node, ast.ImportFrom):
            aliases = (alias for alias in node.names if alias.name.endswith("workload"))
            yield from (a.asname or a.name for a in aliases if not a.name.startswith("find"))


def _imported(tree: ast.Module) -> dict[str, None]:
    """Return the top-level names of imported modules; a relative import has an empty name."""
    roots: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= dict.fromkeys(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            roots["" if node.level else (node.module or "").partition(".")[0]] = None
    return roots


def _may_hold(tree: ast.Module, folder: Path) -> bool:
    """Return whether a file may import Tarmac, directly or through other modules."""
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
            # A module on the path without a distribution: its dependencies are unknown.
            return True
    return False


def _missing(tree: ast.Module, folder: Path) -> list[str]:
    """Return the imported modules that are not installed."""
    others = (root for root in _imported(tree) if root and not _is_beside(root, folder))
    return [root for root in others if not _is_here(root)]


def _is_here(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:
        # `find_spec` raises for modules without a spec, such as `__main__`.
        return True


def _is_beside(module: str, folder: Path) -> bool:
    return (folder / f"{module}.py").is_file() or (folder / module).is_dir()
