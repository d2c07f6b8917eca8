"""Tests of `.ci/changed`, which finds the tests that a change needs."""

from __future__ import annotations

import subprocess

import pytest

from scripts import import_script

FILES = {
    "Makefile": "GROUPS := slurm docs\n",
    "README.md": "# A page\n",
    "src/tarmac/__init__.py": "",
    "src/tarmac/jobs/__init__.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from tarmac.tasks.plan import plan_tasks\n"
        "    from tarmac.jobs.order import in_order\n"
    ),
    "src/tarmac/tasks/plan.py": "from tarmac.jobs import samples\ndef plan_tasks(): ...\n",
    "src/tarmac/jobs/order.py": "def in_order(): ...\n",
    "src/tarmac/jobs/samples.py": "",
    "src/tarmac/jobs/words/rules.toml": "",
    "src/tarmac/masking/__init__.py": (
        "from tarmac.masking.forms import hide\ndef masked(text): return hide(text)\n"
    ),
    "src/tarmac/masking/forms.py": "def hide(text): ...\n",
    "src/tarmac/cli/__init__.py": "from tarmac.cli.entry import main\n",
    "src/tarmac/cli/entry.py": "COMMANDS = {'Jobs': {'run': 'run:command', 'ps': 'jobs:ps'}}\n",
    "src/tarmac/cli/commands/__init__.py": "",
    "src/tarmac/cli/commands/run.py": "def f():\n    from tarmac.jobs import plan_tasks\n",
    "src/tarmac/cli/commands/jobs.py": "",
    "src/tarmac/worker.py": "",
    "tests/conftest.py": "",
    "tests/hostile.py": "",
    "tests/cli/conftest.py": "from tarmac.cli import main\n",
    "tests/cli/test_run.py": "def test(tarmac): tarmac('run', 'job.yaml')\n",
    "tests/cli/test_ps.py": "def test(tarmac): tarmac('ps --json')\n",
    "tests/jobs/conftest.py": "",
    "tests/jobs/recorded/answer.txt": "",
    "tests/jobs/test_plan.py": "from tarmac.jobs import plan_tasks\nfrom hostile import NAMES\n",
    "tests/jobs/test_order.py": "from tarmac import jobs\njobs.in_order()\n",
    "tests/jobs/test_worker.py": "WORKER = 'tarmac.worker:main'\n",
    "tests/test_masked.py": "from tarmac.masking import masked\n",
    "tests/docs/test_docs.py": "import pytest\nmarks = pytest.mark.docs\n",
    "tests/slurm/test_slurm.py": (
        "import pytest\nfrom tarmac.jobs.order import in_order\npytestmark = pytest.mark.slurm\n"
    ),
    "tests/test_script.py": "from pathlib import Path\nSCRIPT = Path('.ci') / 'uv'\n",
}


@pytest.fixture(scope="module")
def script():
    return import_script("changed")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Return a checkout with a few rooms."""
    root = tmp_path_factory.mktemp("checkout")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.fixture
def selected(script, root):
    """Return a function that gives the tests and the groups of changed files."""

    def select(*changed: str):
        tests, groups = script.select(set(changed), script.Graph(root, FILES))
        return [test.removeprefix("tests/") for test in tests], groups

    return select


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # A face leads to the module of each name alone, and a command to what its tests type.
        ("src/tarmac/tasks/plan.py", ["cli/test_run.py", "jobs/test_plan.py"]),
        ("src/tarmac/jobs/samples.py", ["cli/test_run.py", "jobs/test_plan.py"]),
        ("src/tarmac/jobs/order.py", ["jobs/test_order.py", "slurm/test_slurm.py"]),
        ("src/tarmac/cli/commands/jobs.py", ["cli/test_ps.py", "docs/test_docs.py"]),
        (
            "src/tarmac/cli/entry.py",
            ["cli/test_ps.py", "cli/test_run.py", "docs/test_docs.py"],
        ),
        ("src/tarmac/worker.py", ["jobs/test_worker.py"]),
        # Functions of a face itself need what they call.
        ("src/tarmac/masking/forms.py", ["test_masked.py"]),
        ("tests/hostile.py", ["jobs/test_plan.py"]),
        ("tests/cli/test_ps.py", ["cli/test_ps.py"]),
        ("tests/cli/conftest.py", ["cli/test_ps.py", "cli/test_run.py"]),
        (
            "tests/jobs/recorded/answer.txt",
            ["jobs/test_order.py", "jobs/test_plan.py", "jobs/test_worker.py"],
        ),
        ("README.md", ["docs/test_docs.py"]),
        (".ci/uv", ["test_script.py"]),
        ("pyproject.toml", ["tests"]),
    ],
)
def test_a_change_needs_the_tests_that_import_it_at_any_distance(selected, changed, expected):
    tests, _ = selected(changed)
    assert tests == expected


def test_data_beside_modules_need_the_tests_of_these_modules(selected):
    tests, _ = selected("src/tarmac/jobs/words/rules.toml")
    assert set(tests) >= {"jobs/test_plan.py", "jobs/test_order.py"}


def test_the_groups_that_have_such_tests_are_named(selected):
    assert selected("src/tarmac/jobs/order.py")[1] == ["slurm"]
    assert selected("README.md")[1] == ["docs"]
    assert selected("src/tarmac/tasks/plan.py")[1] == []
    assert selected("pyproject.toml")[1] == ["slurm", "docs"]


def test_a_change_is_all_since_the_branch_left_its_base(script, tmp_path):
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True)

    def write(name: str) -> None:
        (tmp_path / name).write_text(name)

    git("init", "--quiet", "--initial-branch=main")
    write("old.py")
    git("add", ".")
    git("commit", "--quiet", "-m", "One")
    git("switch", "--quiet", "-c", "branch")
    write("committed.py")
    git("add", ".")
    git("commit", "--quiet", "-m", "Two")
    write("untracked.py")
    (tmp_path / "old.py").unlink()
    expected = {"committed.py", "untracked.py", "old.py"}
    assert script.changed_files(None, tmp_path) == expected
    assert script.changed_files("HEAD", tmp_path) == {"untracked.py", "old.py"}
    with pytest.raises(SystemExit, match="BASE=HEAD~1"):
        script.changed_files("nosuch", tmp_path)
