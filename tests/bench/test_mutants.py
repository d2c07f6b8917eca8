"""Mutants are drawn where tests can notice them, and found again in other commits."""

from __future__ import annotations

import ast
import json

import pytest

import _mutants

MODULE = '''\
"""A module."""

LIMIT = 1 + 1


def outer(value: int | None = None, *, most: int = 3) -> int | str:
    """Return 1 + 1."""
    total: int | None = 0
    if value is None:
        total = most + 1
    elif value > most:
        total = -1

    def inner() -> int | None:
        """Say nothing."""
        return total

    try:
        return [
            number
            for number in range(most)
        ][0]
    except (IndexError, ValueError):
        return inner()
'''


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree" / "src" / "tarmac" / "files"
    folder.mkdir(parents=True)
    (folder / "module.py").write_text(MODULE)
    return tmp_path / "tree"


@pytest.fixture
def source(tree):
    return _mutants.Source(tree, "src/tarmac/files/module.py")


def line_of(text):
    return MODULE.split("\n").index(text) + 1


def mutant(**fields):
    return _mutants.Mutant(
        **{
            "number": 0,
            "room": "files",
            "file": "src/tarmac/files/module.py",
            "function": "outer",
            "operator": "AddNot",
            "first": line_of("    elif value > most:"),
            "before": ["    elif value > most:"],
            "after": ["    elif not value > most:"],
            "nth": 0,
            **fields,
        }
    )


def test_lines_of_functions_are_drawn_and_no_docstring_or_module_level(source):
    lines = {MODULE.split("\n")[line - 1].strip(): name for line, name in source.functions.items()}
    assert lines["total = most + 1"] == "outer"
    assert lines["return total"] == "outer.inner"
    assert not {"LIMIT = 1 + 1", '"""Return 1 + 1."""', '"""Say nothing."""'} & set(lines)


def test_a_probe_stands_before_each_statement_and_the_module_still_compiles(source):
    for line in source.functions:
        first = source.statement(line)
        assert first
        lines = list(source.lines)
        indent = len(lines[first - 1]) - len(lines[first - 1].lstrip())
        lines.insert(first - 1, " " * indent + "probe()")
        ast.parse("\n".join(lines))
    assert source.statement(line_of("    elif value > most:")) == line_of("    if value is None:")
    assert source.statement(line_of("        total = -1")) == line_of("        total = -1")


def test_mutants_by_cosmic_ray_leave_annotations_alone_and_apply(tree, source, monkeypatch):
    pytest.importorskip("cosmic_ray", reason="see bench/peers/requirements-mutation.txt")
    assert line_of("    total: int | None = 0") in source.mutations
    kinds = {name for name, _ in source.mutations[line_of("    total: int | None = 0")]}
    assert kinds == {"NumberReplacer"}
    work = tree.parent / "work"
    monkeypatch.setattr(_mutants, "commit_of", lambda tree: "0" * 40)
    _mutants.write_sample(tree, work, count=3, seed=0)
    facts, mutants = _mutants.read_sample(work)
    assert facts["sizes"] == {"files": len(source.functions)}
    assert len({made.apply(MODULE) for made in mutants} - {MODULE}) == 3


def test_a_mutant_is_found_again_in_the_file_that_its_function_has_moved_to(tree):
    moved = tree / "src" / "tarmac" / "runs" / "other.py"
    moved.parent.mkdir()
    (tree / "src/tarmac/files/module.py").rename(moved)
    moved.write_text("# New.\n" + MODULE)
    work = tree.parent / "before"
    work.mkdir()
    made = [vars(mutant(number=7)), vars(mutant(function="outer.gone"))]
    (work / "sample.json").write_text(json.dumps({"mutants": made}))
    here = _mutants.Source(tree, "src/tarmac/runs/other.py")
    (again,) = _mutants.counterparts(work, [here])
    assert (again.file, again.room, again.twin) == (here.file, "runs", 7)
    assert again.apply(here.text).count("elif not value > most:") == 1


def test_a_mutant_of_other_lines_is_refused():
    with pytest.raises(ValueError, match=r"module\.py:11 differs from the sample"):
        mutant().apply(MODULE.replace("elif", "if"))


def test_every_room_has_a_share_by_its_size():
    assert _mutants.shares({"a": 700, "b": 299, "c": 1}, 10) == {"a": 7, "b": 2, "c": 1}
