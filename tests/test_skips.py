"""Tests of what is skipped, and of the summary at the end of a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skips import skip_counts
from tarmac.distribution import explained_imports

pytest_plugins = ["pytester"]


def report(reason, *, when="setup", nodeid="test_a.py::test_x"):
    return SimpleNamespace(longrepr=("a.py", 1, f"Skipped: {reason}"), when=when, nodeid=nodeid)


def test_reasons_are_counted():
    reports = [report("no Docker"), report("no Docker"), report("no browser\nmore")]
    assert skip_counts(reports) == {"no Docker": 2, "no browser": 1}


def test_a_module_counts_once_for_all_workers():
    reports = [report("no PyTorch", when="collect", nodeid="test_a.py") for _ in range(3)]
    assert skip_counts(reports) == {"no PyTorch (whole modules)": 1}


@pytest.fixture
def run(pytester, monkeypatch):
    """Return a function that runs pytest, with the plugin, on modules of a room."""

    def run(**modules: str):
        for name, text in modules.items():
            file = pytester.path / "room" / f"{name}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        return pytester.runpytest_inprocess("-p", "skips", "-p", "no:randomly", "-n", "0", "room")

    monkeypatch.setenv("TARMAC_TEST_SKIPS", str(pytester.path / "skips.txt"))
    return run


def missing(name: str) -> str:
    return f"raise ModuleNotFoundError('No module named {name}', name={name!r})\n"


def test_a_module_whose_import_needs_an_extra_is_skipped_with_what_brings_it(run, pytester):
    result = run(
        test_a=missing("torch.nn"), test_b="def test_b(): pass", test_c=missing("playwright")
    )
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "*skipped here, with what would provide it*",
            "*1 playwright is not installed: pip install 'tarmac-gpu?dev?' (whole modules)",
            "*1 torch is not installed: pip install 'tarmac-gpu?train?' (whole modules)",
        ]
    )
    assert "1 torch is not installed" in (pytester.path / "skips.txt").read_text()


def test_a_module_whose_missing_import_tarmac_explains_is_skipped(run):
    text = f"from {explained_imports.__module__} import explained_imports\n"
    text += "with explained_imports():\n    " + missing("optuna")
    run(test_a=text).assert_outcomes(skipped=1)


def test_any_other_module_that_is_not_found_is_an_error(run):
    run(test_a=missing("waitign")).assert_outcomes(errors=1)


def test_a_folder_whose_conftest_needs_an_extra_is_skipped(pytester):
    rooms = pytester.mkdir("rooms")
    for room, text in {"one": missing("optuna"), "two": ""}.items():
        folder = rooms / room
        folder.mkdir()
        (folder / "conftest.py").write_text(text)
        (folder / f"test_{room}.py").write_text("def test_it(): pass")
    result = pytester.runpytest_inprocess("-p", "skips", "-p", "no:randomly", "-n", "0", "rooms")
    result.assert_outcomes(passed=1, skipped=1)
