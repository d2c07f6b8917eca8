"""An image of a container for tests, which needs no registry."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

# One for each process of the tests, by which it knows its own containers.
IMAGE = f"tarmac-test-busybox-{os.getpid()}"


def docker_engine() -> str:
    """Return the program of a Docker engine that answers; skip where none does."""
    engine = shutil.which("docker")
    answers = engine and subprocess.run([engine, "version"], capture_output=True, check=False)
    if engine is None or not answers or answers.returncode != 0:
        pytest.skip("no Docker engine answers; provide one: sudo sh .ci/start-docker")
    return engine


def make_busybox_image() -> str:
    """Make an image of Busybox and nothing else, and return its name; skip where that cannot be."""
    return import_busybox(docker_engine())


def import_busybox(engine: str) -> str:
    """Make the image by an engine's program, and return its name; skip where Busybox is not."""
    busybox = Path("/bin/busybox")
    if not busybox.exists():
        pytest.skip("no static busybox is here; provide one: sudo apt install busybox-static")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(busybox, "bin/busybox")
        for name in (
            "sh",
            "cat",
            "echo",
            "sleep",
            "test",
            "touch",
            "env",
            "df",
            "id",
            "pwd",
            "true",
        ):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    command = [engine, "import", "--change", "ENV PATH=/bin", "-", IMAGE]
    subprocess.run(command, input=content.getvalue(), check=True, capture_output=True)
    return IMAGE


def remove_busybox(engine: str) -> None:
    """Remove the image, and containers that are left of it."""
    subprocess.run([engine, "image", "rm", "--force", IMAGE], check=False, capture_output=True)
