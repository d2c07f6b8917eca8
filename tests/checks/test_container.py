"""Checking what a container image has, on a real Docker engine."""

from __future__ import annotations

import subprocess

import pytest

import tarmac
from tarmac.checks.frameworks import Framework
from tarmac.checks.run_probe import run_probe
from tarmac.checks.targets import container_target

pytest.importorskip("torch", reason="needs pip install 'tarmac-gpu[train]'")

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

IMAGE = "tarmac-test-torch"

# PyTorch and what it imports; not NumPy, which it works without.
_PACKAGES = (
    *("torch", "torchgen", "functorch", "typing_extensions.py", "sympy", "mpmath", "networkx"),
    *("jinja2", "markupsafe", "filelock", "fsspec"),
)


@pytest.fixture(scope="session")
def image(python_image) -> str:
    """Return an image of Debian's Python 3.11 with this environment's PyTorch."""
    return python_image(IMAGE, _PACKAGES)


def containers() -> list[str]:
    # Tests beside these have containers of other images.
    command = ["docker", "ps", "--all", "--quiet", "--filter", f"ancestor={IMAGE}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_pytorch_computes_in_a_container(image):
    report = tarmac.check(["torch"], images=[image], devices=["cpu"])
    (probe,) = report.probes
    assert probe.outcome == "done", probe.detail + probe.text
    assert probe.where == image
    assert probe.result["devices"][0]["matmul"]["ok"]
    assert report.ok
    assert containers() == []


def test_a_framework_that_an_image_lacks_is_said(image):
    report = tarmac.check(["jax"], images=[image])
    (verdict,) = report.frameworks
    assert (verdict.answer, verdict.text) == ("absent", f"not installed in {image}")


def test_an_image_with_a_user_of_its_own_comes_back_with_a_result(image):
    user = f"{image}-user"
    subprocess.run(
        ["docker", "build", "--quiet", "--tag", user, "-"],
        input=f"FROM {image}\nUSER nobody\n",
        text=True,
        check=True,
        capture_output=True,
    )
    report = tarmac.check(["torch"], images=[user], depth="quick", devices=["cpu"])
    assert [probe.outcome for probe in report.probes] == ["done"], report.probes


def test_a_container_that_crashes_is_told_with_its_signal(image, tmp_path):
    program = tmp_path / "odd_probe.py"
    program.write_text("import ctypes\nctypes.string_at(0)\n")
    odd = Framework("odd", "Odd", probe=program)
    found = run_probe(odd, container_target(image), depth="quick", timeout_s=60)
    assert (found.outcome, found.detail) == ("crashed", "SIGSEGV")


def test_a_container_that_hangs_is_ended(image):
    report = tarmac.check(["torch"], images=[image], timeout_s=0.5)
    assert [probe.outcome for probe in report.probes] == ["hung"]
    assert containers() == []


def test_a_missing_image_is_said_in_the_engines_words(image):
    report = tarmac.check(["torch"], images=["tarmac-test-none"])
    (probe,) = report.probes
    assert probe.outcome == "not started"
    assert "Error" in probe.detail
    assert "tarmac-test-none" in probe.printed
