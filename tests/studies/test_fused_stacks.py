"""Stacks by kernels of our own become what they become by PyTorch's products."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from packaging.version import Version

PROGRAM = Path(__file__).parent / "fused_stacks.py"


@pytest.fixture(autouse=True)
def interpreter():
    """Skip where Triton cannot interpret its kernels on a CPU."""
    triton = pytest.importorskip("triton", reason="needs Triton: pip install triton")
    # NumPy 2.4 takes an array of one number for a number no more, and Triton 3.6 gives it one.
    if Version(triton.__version__) < Version("3.7") and Version(numpy.__version__) >= Version(
        "2.4"
    ):
        pytest.skip("Triton before 3.7 interprets no loop with NumPy 2.4: pip install 'numpy<2.4'")


def test_a_mixed_stack_is_the_same_by_kernels_as_by_products():
    done = subprocess.run(
        [sys.executable, PROGRAM],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() == {"one shape", "ragged"}
    for kinds in found.values():
        for ours, theirs in zip(kinds["FusedKernels"], kinds["Products"], strict=True):
            for mine, others in zip(ours, theirs, strict=True):
                losses, right = mine
                assert losses == pytest.approx(others[0], rel=1e-4)
                assert right == others[1]


@pytest.mark.parametrize(
    ("interpreted", "expected"), [("1", "None"), ("0", "RuntimeError: ")], ids=["there", "no GPU"]
)
def test_whether_the_kernels_can_be_used_is_tried(interpreted, expected):
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler is here; provide one: sudo apt install gcc")
    program = (
        "import torch; from tarmac.studies.evaluation.stacked.fused import why_unusable;"
        "print(why_unusable(torch.device('cpu')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TRITON_INTERPRET": interpreted},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(expected)
