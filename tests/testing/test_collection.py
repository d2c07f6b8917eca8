"""What pytest makes of this repository's tests where packages or cores are other than usual."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

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
    folder = str(TESTS / "jobs")
    said = pytest_without("boto3 moto", "-n", "0", "-m", "gpu", "--collect-only", folder)
    for module in ("boto3", "moto"):
        assert f"not collected without {module}: jobs/test_objects.py" in said


def test_few_processes_share_a_gpu_whatever_the_number_of_cores(pytestconfig):
    count = pytestconfig.hook.pytest_xdist_auto_num_workers
    assert count(config=SimpleNamespace(option=SimpleNamespace(markexpr="gpu"))) == 4
