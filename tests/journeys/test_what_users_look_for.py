"""Five users find what they look for: in the README, or on a page that it links."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from doc_pages import ROOT, links

# By the user: what is looked for, as words on a page, and over how many links from the README.
SOUGHT = {
    "HKube's GPU algorithm": {
        "HKube": 0,
        r"pipeline\.json": 0,
        "algorithms and pipelines": 0,
        "hkube serve": 0,
        "killed run can be resumed": 0,
        "batches, retries, warm processes, tuning": 0,
        "Kubernetes": 0,
        "GPU example": 1,
        "gpu-algorithm": 1,
        "taskId": 1,
        "--input": 1,
        '"gpu": 1': 1,
        r"s3://": 1,
    },
    "Batch Shipyard's Chainer recipe": {
        "Batch Shipyard's recipes": 0,
        "Chainer": 0,
        "SkyPilot": 0,
        "examples.*six frameworks": 0,
        "containers": 0,
        "chainer/chainer": 1,
        "without Docker": 1,
        "jobs add --tail": 1,
        "Azure": 1,
        "retired": 1,
        "chainer-mnist": 1,
        "cupy": 1,
    },
    "Keras on EC2, with Anaconda": {
        "Keras": 0,
        "mnist-mlp": 0,
        "notebook": 0,
        "nvidia-smi": 0,
        "TensorBoard": 0,
        "why a GPU is faster": 0,
        "--race": 0,
        "glossary": 0,
        r"mnist_mlp\.py": 1,
        "EC2": 1,
        "AWS": 1,
        "conda": 1,
        r"environment\.yml": 1,
        "key pair": 1,
        "K520": 1,
        "NUMA node -1": 1,
    },
    "towers, and a genetic search": {
        "tower": 0,
        "--strategy towers": 0,
        "ways to feed": 0,
        "asynchronous": 0,
        "genetic": 0,
        "mlp-evolve": 0,
        "--method brute": 0,
        "672": 0,
        "--feed direct": 1,
        "batching": 1,
        r"main\.py": 1,
        r"brute\.py": 1,
    },
    "two T4s and four frameworks": {
        "PyTorch, TensorFlow, Keras, JAX, MXNet, Chainer and Horovod": 0,
        "nvtop": 0,
        "container": 0,
        "tarmac top": 0,
        "log_device_placement": 1,
        "--provision tensorflow": 1,
        "fp16": 1,
        "T4": 1,
    },
}


@functools.cache
def _pages(steps: int) -> frozenset[Path]:
    """Return the pages that are so many links from the README at most."""
    if not steps:
        return frozenset({ROOT / "README.md"})
    before = _pages(steps - 1)
    linked = {
        (page.parent / link.partition("#")[0]).resolve() for page in before for link in links(page)
    }
    return before | {page for page in linked if page.suffix == ".md" and page.is_file()}


def test_there_are_61_things_to_look_for():
    assert sum(map(len, SOUGHT.values())) == 61


@pytest.mark.parametrize(
    ("words", "steps"), [pair for things in SOUGHT.values() for pair in things.items()]
)
def test_what_a_user_looks_for_is_found(words, steps):
    pages = [re.sub(r"\s+", " ", page.read_text()) for page in _pages(steps)]
    assert any(re.search(words, page, re.IGNORECASE) for page in pages)
