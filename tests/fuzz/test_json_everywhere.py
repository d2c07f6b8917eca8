"""Whoever reads JSON that another has written is ready for one that is nested too deeply."""

from __future__ import annotations

import ast

from doc_pages import PACKAGE, SOURCES

# The caller of `_load_json` is ready.
READY_ABOVE = {"hkube/protocol/values.py"}

# These read what Tarmac itself has just written: to a pipe, a variable or a text.
OWN = {
    "checks/report/forms.py",
    "executors/kubernetes/kind.py",
    "executors/ray/kind.py",
    "executors/ray/mirror.py",
    "executors/slurm/kind.py",
    "tasks/leases.py",
    "kubernetes/overlays.py",
    "node/pod.py",
    "node/records.py",
    "processes/serving.py",
    "processes/workers.py",
    "studies/space.py",
    "training/processes/group.py",
    "training/processes/link.py",
    "training/processes/reach.py",
}


def is_ready(handler: ast.ExceptHandler) -> bool:
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & {"RecursionError", "Exception"})


def unready_calls(tree: ast.Module) -> set[int]:
    """Return the lines of the calls of `json.loads` that no handler of RecursionError is around."""
    calls, ready = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "json.loads":
            calls.add(node.lineno)
        if isinstance(node, ast.Try) and any(h.type and is_ready(h) for h in node.handlers):
            for inner in node.body:
                ready |= {part.lineno for part in ast.walk(inner) if isinstance(part, ast.Call)}
    return calls - ready


def test_no_nesting_ends_a_reader_of_json():
    unready = {
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in SOURCES
        if "probes" not in path.parts and str(path.relative_to(PACKAGE)) not in OWN | READY_ABOVE
        for line in unready_calls(ast.parse(path.read_text()))
    }
    assert not unready, "take tarmac.files.parse_json"
