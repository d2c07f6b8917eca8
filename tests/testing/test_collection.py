"""What pytest makes of this repository's tests where packages or cores are other than usual."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

TESTS = Path(__file__).parents[1]


def pytest_without(hidden: str, *arguments: str) -> str:
    """Run pytest where modules cannot be imported, and return what it says."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({hidden.split()!r}))"
    program = f"{hide}; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "-p", "no:cacheprovider", *arguments],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    # 5 says that no test was chosen.
    assert done.returncode in (0, 5), done.stdout + done.stderr
    return done.stdout


def test_tests_are_collected_without_the_object_stores_test_server():
    pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")
    objects = str(TESTS / "jobs" / "test_objects.py")
    collected = pytest_without("boto3 moto", "-n", "0", "--collect-only", objects)
    assert "test_objects.py" in collected
    assert "error" not in collected


def test_few_processes_share_a_gpu_whatever_the_number_of_cores(pytestconfig):
    count = pytestconfig.hook.pytest_xdist_auto_num_workers
    assert count(config=SimpleNamespace(option=SimpleNamespace(markexpr="gpu"))) == 4
