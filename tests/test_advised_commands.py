"""Whatever a message advises to type holds paths and names as words of a shell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src/tarmac"

# A command at the beginning of a line, after a colon or in a pipe, up to what is put into it.
_COMMAND = re.compile(
    r"(?:^|\n|: |\| |; |by )"
    r"(?:rm|cp|mv|cat|head|sed|ls|chmod|chown|mkdir|iconv|tarmac)(?: [\w./:=|>-]*)*$"
)


def texts_put_into_commands(tree: ast.AST) -> Iterator[ast.FormattedValue]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                before += str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            if _COMMAND.search(before.rpartition("\n")[2]):
                yield part
            before += "x"


def is_word(value: ast.expr, quoted: set[str]) -> bool:
    """Whether a value is a call that quotes it, a variable of such a one, or a number."""
    match value:
        case ast.Call(func=ast.Name(id=name)):
            return name in {"quoted", "len"}
        case ast.Call(func=ast.Attribute(attr=name)):
            return name == "quote"
        case ast.Name(id=name):
            return name in quoted
        case ast.BinOp() | ast.IfExp():
            return True
    return False


def variables_of_quoted(tree: ast.AST) -> set[str]:
    """The names of variables that hold what `quoted` has returned."""
    return {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and is_word(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }


# Names of our own, of executors, of Ray's nodes, and words of the program: no file and no user
# chooses them.
KNOWN = {
    "checks/report/verdicts.py: probe.framework",
    "cli/commands/data.py: wrong[0]",
    "cli/entry.py: installed_version()",
    "cli/job_runs.py: name",
    "cli/preflight.py: finding.code",
    "cli/search_elsewhere.py: workers.on",
    "cli/train_checks.py: workload_names()[0]",
    "cli/views/workloads.py: workloads[0].name",
    "data/registry.py: name",
    "formats/skypilot/writing.py: _FILE",
    "executors/ray/units.py: unit.task",
    "jobs/journal.py: line.number",
    "monitor/screen/web.py: self.address",
    "pages/check.py: _verdict(report)",
    "runs/directory.py: line.number",
    "studies/cluster/session.py: run.executor",
    "studies/opening.py: workload_names()[0]",
    "training/session/mistakes.py: name",
}


def test_paths_and_names_are_quoted():
    unquoted = set()
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        quoted = variables_of_quoted(tree)
        unquoted |= {
            f"{path.relative_to(SOURCE)}: {ast.unparse(part.value)}"
            for part in texts_put_into_commands(tree)
            if not is_word(part.value, quoted)
        }
    assert unquoted - KNOWN == set()
    assert KNOWN - unquoted == set(), "no longer there"
