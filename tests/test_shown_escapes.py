"""What is printed on standard error shows control characters of names and paths as escapes."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tarmac"

ESCAPING = ("in_one_line", "in_lines", "_in_a_line", "quoted", "counted")

# Places whose texts are made by such a function before, or of nothing that others name; and the
# agent, whose own log no terminal shows before its runner has escaped it.
ELSEWHERE = {
    ("checks/pod_gpus.py", "line"),
    ("cli/commands/cluster.py", "line"),
    ("cli/commands/search_studies.py", "f'wrote {to}'"),
    ("cli/entry.py", "before + first"),
    ("cli/entry.py", "f'  {line}'"),
    ("cli/entry.py", "error.message"),
    ("cli/job_runs.py", "f'its runner is on this machine: {why_not}'"),
    ("cli/job_work.py", "f'the time limit of this runner is near; job {place} continues the run'"),
    ("cli/job_work.py", "_what_goes_on(run, kind.title)"),
    ("cli/output.py", "f'warning: {self._title} cannot be written: {reason}\\n'"),
    ("cli/search_elsewhere.py", "message"),
    ("cli/views/check_forms.py", "f'{path} is not written, because this check did not succeed'"),
    ("cli/watching.py", "f'Serving metrics at {place}'"),
    ("node/main.py", "f'tarmac: {words}'"),
    ("ranks.py", "f'rank {rank} was killed by {signal.Signals(-code).name}\\n'"),
}


def printed_on_stderr():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            name = ast.unparse(node.func)
            has_stream = any(keyword.arg in ("err", "file") for keyword in node.keywords)
            if name == "sys.stderr.write" or (
                name in ("click.echo", "click.secho", "print") and has_stream
            ):
                yield path.relative_to(SOURCE).as_posix(), node.args[0]


def test_each_text_on_standard_error_is_escaped_where_it_is_printed():
    raw = {
        (file, ast.unparse(text))
        for file, text in printed_on_stderr()
        if not isinstance(text, ast.Constant)
        and not any(
            isinstance(node, ast.Call) and ast.unparse(node.func) in ESCAPING
            for node in ast.walk(text)
        )
    }
    assert raw == ELSEWHERE
