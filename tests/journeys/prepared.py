"""The files, runs and programs that the commands of the pages name."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import shutil
import struct
import sys
from pathlib import Path

import numpy as np

import tarmac
from doc_pages import PAGES, ROOT, blocks, page_id
from tarmac.data import sources

# What pages call runs that their readers have; all are of the same training here.
TRAININGS = (
    "RUN",
    "NAME",
    "brave-fox",
    "calm-owl",
    "digits-mlp-20261120-2",
    "digits-mlp-20261121",
    "digits-mlp-20261123",
    "mnist-mlp-a",
    "mnist-mlp-b",
    "my-run",
)
SHELL = (
    *(
        "bash",
        "cat",
        "cp",
        "cut",
        "date",
        "dirname",
        "echo",
        "env",
        "false",
        "git",
        "grep",
        "head",
        "id",
    ),
    *(
        "ls",
        "mkdir",
        "mv",
        "printf",
        "rm",
        "sed",
        "sh",
        "sleep",
        "sort",
        "tail",
        "test",
        "touch",
        "tr",
    ),
    *("true", "uname", "wc", "which", "mount", "umount"),
)

JOB = """
name: hello
tasks:
- {name: greet, command: "echo hello; echo careful >&2"}
- {name: evaluate, command: echo done, needs: [greet]}
"""


IN_IMAGE = "{name: greet, command: echo hello, environment: {image: 'debian:12'}}"
ASLEEP = "{name: asleep, command: sleep 600}"
# Of a job that has failed, and succeeds once its run has a file of this name.
FAILING = "{name: sweep, command: test -e ../../../go}"


def small_mnist(side: int = 28) -> dict[str, bytes]:
    """Return MNIST's four files, of 100 samples each."""
    generator = np.random.default_rng(0)

    def idx(array: np.ndarray) -> bytes:
        header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        return header + array.tobytes()

    files = {}
    for part in ("train", "t10k"):
        files[f"{part}-images-idx3-ubyte"] = idx(
            generator.integers(0, 256, (100, side, side), np.uint8)
        )
        files[f"{part}-labels-idx1-ubyte"] = idx(np.arange(100, dtype=np.uint8) % 10)
    return files


def small_sources(files: dict[str, bytes]) -> dict[str, sources.Source]:
    """Return the sources of images, each with the same few files and no mirror of its own."""
    layout = tuple(
        sources.DataFile(name, md5=hashlib.md5(content).hexdigest())
        for name, content in files.items()
    )
    return {
        name: dataclasses.replace(
            sources.SOURCES["mnist"], name=name, layouts=(layout,), mirrors=()
        )
        for name in ("mnist", "fashion-mnist", "cifar10")
    }


def write_page(page: str, directory: Path) -> None:
    """Write the files that a page shows."""
    for path in PAGES:
        if page_id(path) == page:
            for block in blocks(path):
                if block.file is not None:
                    target = directory / block.file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(block.text)


def prepare_machine(directory: Path) -> None:
    """Make what a machine has: programs, a home, a mirror of datasets and a stick with one."""
    for name in ("mnist", "fashion-mnist", "cifar10"):
        place = directory / "mirror" / name
        place.mkdir(parents=True)
        for file, content in small_mnist().items():
            (place / f"{file}.gz").write_bytes(gzip.compress(content, 1))
    shutil.copytree(directory / "mirror" / "mnist", directory / "usb" / "mnist")
    for python in ("home/venvs/jax/bin", "home/PATH"):
        (directory / python).mkdir(parents=True)
        (directory / python / "python").symlink_to(sys.executable)
    programs = directory / "programs"
    programs.mkdir()
    for name in SHELL:
        program = shutil.which(name)
        if program is not None:
            (programs / name).symlink_to(program)
    (programs / "curl").write_text("#!/bin/sh\nexec cat > /dev/null\n")
    (programs / "curl").chmod(0o755)
    for name in ("python", "python3", "tarmac"):
        (programs / name).symlink_to(Path(sys.executable).parent / name)


def prepare_files(directory: Path) -> None:
    """Write all files that are named, those of pages first."""
    for page in (
        *(
            "own-workload",
            "search",
            "clouds",
            "read-logs",
            "hkube",
            "hkube-pipelines",
            "hkube-tuning",
            "hkube-serve",
            "hkube-definitions",
            "optimizers",
            "jobs",
            "report",
        ),
        *("search-script", "job-data", "containers"),
        *("take-over", "clusters", "cluster-retries", "slurm", "ray"),
        *("kubernetes", "kubernetes-files", "kubernetes-pods"),
    ):
        write_page(f"docs/{page}.md", directory)
    (directory / "job.yaml").write_text(JOB)
    (directory / "asleep.yaml").write_text(ASLEEP)
    (directory / "image.yaml").write_text(IN_IMAGE)
    (directory / "space.yaml").write_text("hidden: [8, 16]\n")
    (directory / "failing.yaml").write_text(FAILING)
    (directory / "exec.json").write_text('{"input": [{"num_epochs": 1, "output": "out"}]}')
    digits = (directory / "digits.yaml").read_text()
    (directory / "digits-gpu.yaml").write_text(digits.replace("memory: 2GiB", "gpus: 1"))
    with gzip.open(directory / "old.log.gz", "wb") as file:
        file.write((directory / "train.log").read_bytes())
    shutil.copytree(directory / "recipe", directory / "shipyard")
    shutil.copytree(directory / "recipe", directory / "FOLDER")
    shutil.copytree(directory / "totals", directory / "algorithms")
    for name, copy in (
        ("totals/words.py", "words.py"),
        ("totals/algorithms.json", "algorithms.json"),
        ("totals/pipeline.json", "pipeline.json"),
        ("count.json", "algorithm.json"),
        ("words.json", "input.json"),
        ("recipe/config/pool.yaml", "pool.yaml"),
        ("recipe/config/jobs.yaml", "jobs.yaml"),
    ):
        shutil.copy(directory / name, directory / copy)
    (directory / "examples").symlink_to(ROOT / "examples")
    _write_samples(directory)


def _write_samples(directory: Path) -> None:
    from PIL import Image

    samples = tarmac.data.load("digits").test.inputs[:3]
    np.savetxt(directory / "samples.csv", samples.reshape(3, -1), "%d", ",")
    np.save(directory / "samples.npy", samples)
    np.savez(directory / "digits.npz", **_arrays())
    for folder, size in (
        ("photos", 8),
        ("flowers/rose", 64),
        ("flowers/tulip", 64),
        ("IMAGES/a", 224),
    ):
        (directory / folder).mkdir(parents=True)
        for number in range(8):
            pixels = np.full((size, size), number * 20, np.uint8)
            Image.fromarray(pixels).save(directory / folder / f"{number}.png")


def _arrays() -> dict[str, np.ndarray]:
    digits = tarmac.data.load("digits")
    return {"inputs": digits.test.inputs[:40], "targets": digits.test.targets[:40]}
