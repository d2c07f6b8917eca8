"""Tests that touch a mutant are found and run in order, and two commits are compared."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest

import _mutants
import mutation


def mutant(**fields):
    return _mutants.Mutant(
        **{
            "number": 0,
            "room": "files",
            "file": "src/tarmac/files/module.py",
            "function": "outer",
            "operator": "AddNot",
            "first": 11,
            "before": ["    elif value > most:"],
            "after": ["    elif not value > most:"],
            "nth": 0,
            **fields,
        }
    )


def test_a_probe_reports_its_site_and_test_without_packages_and_environment(tmp_path):
    (tmp_path / "hits.txt").touch()
    (tmp_path / "current").mkdir()
    (tmp_path / "current" / str(os.getpid())).write_bytes((42).to_bytes(8, "little"))
    file = str(mutation.PEERS / "mutation_hits.py")
    probe = mutation.PROBE.format(number=7, file=file, place=str(tmp_path))
    absent = mutation.PROBE.format(number=8, file="/absent", place="/absent")
    code = f"{probe}\n{probe}\n{absent}"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], env={}, check=True)
    assert (tmp_path / "hits.txt").read_text() == "42 7 0\n42 8 0\n"


def test_a_fork_counts_for_the_worker_whose_environment_it_has(tmp_path):
    (tmp_path / "hits.txt").touch()
    workers = [tmp_path / name for name in ("first", "second")]
    for number, worker in enumerate(workers):
        worker.write_bytes(number.to_bytes(8, "little"))
    file = str(mutation.PEERS / "mutation_hits.py")
    probe = mutation.PROBE.format(number=7, file=file, place=str(tmp_path))
    code = (
        f"import os\n{probe}\npid = os.fork()\n"
        f"if not pid:\n    os.environ['MUTATION_CURRENT'] = {str(workers[1])!r}\n    {probe}\n"
        "else:\n    os.waitpid(pid, 0)\n"
    )
    env = {"MUTATION_CURRENT": str(workers[0])}
    subprocess.run([sys.executable, "-I", "-S", "-c", code], env=env, check=True)
    assert (tmp_path / "hits.txt").read_text() == "0 7 0\n1 7 0\n"


@pytest.fixture
def work(tmp_path):
    """A map: fixture 9 takes 50 s; the suite has four tests, of which one failed."""
    tests = [
        {"number": 9, "seconds": 50.0},
        {"number": 1, "test": "tests/files/test_a.py::slow", "seconds": 5.0, "fixtures": [9]},
        {"number": 2, "test": "tests/runs/test_b.py::quick", "seconds": 0.1, "fixtures": []},
        {"number": 3, "test": "tests/files/test_a.py::broken", "seconds": 0.1, "fixtures": []},
        {"number": 4, "test": "tests/files/test_a.py::other", "seconds": 1.0, "fixtures": []},
    ]
    for test in tests[1:]:
        test["outcome"] = "failed" if "broken" in test["test"] else "passed"
    lines = "\n".join(json.dumps(test) for test in tests)
    (tmp_path / "tests.jsonl").write_text(lines + '\n{"number": 5, "te')
    (tmp_path / "hits.txt").write_text("9 0 0\n2 0 0\n3 0 0\n2 1 1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("number", "limits", "names"),
    [
        (0, {}, ["slow", "quick"]),
        (0, {"max_tests": 1}, ["slow"]),
        (1, {}, ["other", "slow", "quick"]),
        (1, {"max_s": 50}, ["other", "quick"]),
        (2, {}, []),
        (0, {"max_tests": 1, "killer": "tests/runs/test_b.py::quick"}, ["quick"]),
        (2, {"killer": "tests/runs/test_b.py::quick"}, []),
    ],
    ids=["by-fixture", "count", "at-import", "seconds", "untouched", "killer", "no-killer"],
)
def test_touching_tests_run_those_of_the_room_first_within_limits(work, number, limits, names):
    limits = {"max_tests": 9, "max_s": 99} | limits
    chosen, _ = mutation.Map(work).select(mutant(number=number), is_cached=False, **limits)
    assert [test.partition("::")[2] for test in chosen] == names


def test_a_changes_killer_is_known_wherever_its_lines_have_gone(tmp_path):
    sample = {"mutants": [dataclasses.asdict(mutant(number=n, nth=n)) for n in (0, 1)]}
    (tmp_path / "sample.json").write_text(json.dumps(sample))
    results = [{"number": 0, "by": ""}, {"number": 1, "by": "tests/a.py::b"}]
    (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, results)))
    moved = mutant(number=5, nth=1, first=99, file="src/tarmac/files/other.py")
    assert mutation.read_killers(tmp_path) == {moved.change: "tests/a.py::b"}


def test_a_pair_that_is_killed_no_more_is_listed(tmp_path, capsys):
    for name, status in (("before", "killed"), ("after", "survived")):
        work = tmp_path / name
        work.mkdir()
        made = vars(mutant(twin=0 if name == "after" else None))
        facts = {"commit": f"{name}-commit", "seed": 0, "mutants": [made]}
        (work / "sample.json").write_text(json.dumps(facts))
        result = {"number": 0, "status": status, "seconds": 1, "touching": 2, "ran": ["a"]}
        (work / "results.jsonl").write_text(json.dumps(result) + "\n")
    arguments = ["report", "--work", str(tmp_path / "after"), "--before", str(tmp_path / "before")]
    mutation.main(arguments)
    printed = capsys.readouterr().out
    assert "## 1 mutants of both: 1 killed before, 0 killed after" in printed
    assert "- src/tarmac/files/module.py:11 AddNot" in printed
    assert "survived, 1 of 2 tests: `elif value > most:` -> `elif not value > most:`" in printed


@pytest.fixture
def run(work, monkeypatch):
    """Return a function that runs mutant 0 of the map; its tests end as a function says."""
    source = "def outer():\n    return 1\n"
    made = vars(mutant(first=2, before=["    return 1"], after=["    return 2"]))
    (work / "sample.json").write_text(json.dumps({"commit": "0", "seed": 0, "mutants": [made]}))

    def prepare(tree, copy, commit):
        (copy / "src/tarmac/files").mkdir(parents=True, exist_ok=True)
        (copy / made["file"]).write_text(source)

    monkeypatch.setattr(mutation, "prepare", prepare)

    def run(ends, *limits):
        def pytest(runner, copy, tests):
            return ends(tests, is_mutated="return 2" in (copy / made["file"]).read_text())

        monkeypatch.setattr(mutation.Runner, "pytest", pytest)
        arguments = ["run", "--work", str(work), "--tree", str(work), "--jobs", "1", *limits]
        mutation.main(arguments)
        return mutation.read_lines(work / "results.jsonl")

    return run


def test_a_survivor_continues_with_the_tests_that_larger_limits_allow(run):
    def ends(tests, is_mutated):
        is_killed = is_mutated and tests == ["tests/runs/test_b.py::quick"]
        return ("killed", tests[0]) if is_killed else ("survived", "")

    assert [r["status"] for r in run(ends, "--max-tests", "1")] == ["survived"]
    assert [r["status"] for r in run(ends, "--max-tests", "1")] == ["survived"]
    assert [r["status"] for r in run(ends, "--max-tests", "2")] == ["survived", "killed"]
    (*_, last) = run(ends, "--max-tests", "9")
    assert last["by"] == "tests/runs/test_b.py::quick"
    assert len(last["ran"]) == last["touching"] == 2


def test_a_slow_test_that_fails_without_the_mutant_too_does_not_kill_it(run):
    def ends(tests, is_mutated):
        flaky = "tests/files/test_a.py::slow"
        return ("killed", flaky) if flaky in tests else ("survived", "")

    (result,) = run(ends)
    assert result["status"] == "survived"
    assert result["unreliable"] == ["tests/files/test_a.py::slow"]
