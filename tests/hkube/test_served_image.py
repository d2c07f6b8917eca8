"""The image that serves a workload, built and run on a Docker engine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytest.importorskip("bson", reason="needs pip install 'tarmac-gpu[hkube]'")

ROOT = Path(__file__).parents[2]
IMAGE = "tarmac-test-served"

# Debian 12's, of which the image has the standard library.
_PYTHON = {"python_version": "3.11", "python_full_version": "3.11.2"}


def entries_of(*wanted: str) -> set[str]:
    """Return the files and folders of distributions and of all that they require in the image."""
    found: set[str] = set()
    seen = set()
    waiting = [Requirement(text) for text in wanted]
    while waiting:
        requirement = waiting.pop()
        for extra in ("", *sorted(requirement.extras)):
            key = (requirement.name, extra)
            if key in seen:
                continue
            seen.add(key)
            distribution = importlib.metadata.distribution(requirement.name)
            if requirement.name != "tarmac-gpu":
                found |= {path.parts[0] for path in distribution.files or ()}
            for text in distribution.requires or ():
                inner = Requirement(text)
                if inner.marker is None or inner.marker.evaluate(_PYTHON | {"extra": extra}):
                    waiting.append(inner)
    return found - {"..", "__pycache__"}


@pytest.fixture(scope="module")
def image(python_image, tmp_path_factory) -> str:
    """Return the image of examples/hkube/Dockerfile, with what pip would install in its base."""
    base = python_image(f"{IMAGE}-base", entries_of("tarmac-gpu[train,hkube,objects]", "pip"))
    wheels = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels]
    subprocess.run([*pip, ROOT], check=True)
    built = subprocess.run(
        [
            *("docker", "build", "--network", "none", "--tag", IMAGE),
            *("--build-arg", f"BASE={base}", "--build-arg", "DATASETS="),
            *("--file", ROOT / "examples/hkube/Dockerfile", wheels),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    return IMAGE


def tarmac(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tarmac", *arguments],
        cwd=cwd,
        env=os.environ | {"TARMAC_RUNS": str(cwd / "runs")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_becomes_a_definition_of_its_workload(tmp_path):
    example = str(ROOT / "examples/hkube/mnist-mlp.yaml")
    definition = json.loads(tarmac("convert", example, "--to", "hkube", cwd=tmp_path))
    assert definition["gpu"] == 1
    assert definition["algorithmEnv"] == {"TARMAC_WORKLOAD": "mnist-mlp", "TARMAC_GPUS": "1"}


@pytest.mark.containers
@pytest.mark.timeout(1800)
def test_a_workload_is_trained_by_the_image_that_its_definition_names(image, tmp_path):
    (tmp_path / "job.yaml").write_text(
        f"{{name: digits, workload: digits-mlp, settings: {{hidden: 64}}, "
        f"environment: {{image: {image}}}, resources: {{cpus: 1, memory: 2GiB}}}}"
    )
    definition = tarmac("convert", "job.yaml", "--to", "hkube", cwd=tmp_path)
    (tmp_path / "digits.json").write_text(definition)
    (tmp_path / "input.json").write_text('[{"num_epochs": 10, "train_size": 500, "seed": 1}]')
    given = ("--input", "input.json", "--result", "result.json")
    tarmac("run", "digits.json", *given, cwd=tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert {*result} == {"loss", "acc", "output"}
    assert result["acc"] > 0.7
