"""Where probes run: an interpreter, a container image, or an environment built for a framework."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs
from filelock import FileLock

from tarmac.errors import RequestError, unknown_name
from tarmac.jobs import build_environment, find_engine

__all__ = ["PINNED", "THIS_PYTHON", "Place", "container_place", "provisioned_place", "python_place"]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where probes run.

    Attributes:
        name: For people.
        command: What runs a Python program there, e.g. ``("/opt/tf/bin/python",)``.
        image: Of a container, where it is one.
    """

    name: str
    command: tuple[str, ...]
    image: str | None = None


THIS_PYTHON = Place("this Python", (sys.executable,))


@dataclasses.dataclass(frozen=True)
class _Pinned:
    """How an environment is built.

    Attributes:
        first: Packages that the build of others needs.
        then: The rest, built with what is there already.
        variables: For the build.
    """

    then: tuple[str, ...]
    first: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


_OLD = ("setuptools<70", "wheel", "numpy<1.24")

# MXNet and Chainer are retired: their last versions, with the newest NumPy that they run with.
PINNED = {
    "tensorflow": _Pinned(("tensorflow==2.21.0",)),
    "jax": _Pinned(("jax==0.10.2",)),
    "keras": _Pinned(("keras==3.15.1", "jax==0.10.2")),
    "mxnet": _Pinned(("mxnet==1.9.1",), _OLD),
    "chainer": _Pinned(
        ("chainer==7.8.1",), (*_OLD, "six", "protobuf<3.21", "typing_extensions", "filelock")
    ),
    "horovod": _Pinned(
        ("horovod==0.28.1",),
        (*_OLD, "mxnet==1.9.1", "cmake<4", "cloudpickle", "psutil", "pyyaml", "packaging", "cffi"),
        (
            ("HOROVOD_WITH_MXNET", "1"),
            ("HOROVOD_WITH_GLOO", "1"),
            ("HOROVOD_WITHOUT_MPI", "1"),
            ("HOROVOD_WITHOUT_PYTORCH", "1"),
            ("HOROVOD_WITHOUT_TENSORFLOW", "1"),
        ),
    ),
}


def python_place(path: str | Path) -> Place:
    """Return the place of another interpreter.

    Raises:
        RequestError: There is none, or it is no Python from 3.7 on.
    """
    found = shutil.which(str(path))
    if found is None:
        raise RequestError(
            f"--python {path} is no program that can be run",
            hint="Name an interpreter, e.g. /opt/venv/bin/python",
        )
    try:
        done = subprocess.run(
            [found, "-c", "import sys; print(sys.version_info >= (3, 7))"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RequestError(f"--python {path} does not start: {error}") from error
    if done.stdout.strip() != "True":
        raise RequestError(f"--python {path} is no Python of at least 3.7")
    return Place(str(path), (found,))


def container_place(image: str) -> Place:
    """Return the place of a container image, under Docker or Podman.

    Raises:
        RequestError: No engine is here, or it does not answer.
    """
    return Place(image, (find_engine(None),), image)


def provisioned_place(framework: str) -> Place:
    """Build an environment of pinned versions for a framework, once, and return its place.

    Raises:
        RequestError: There are no pins for it.
        TarmacError: It could not be built; the installer's own words are in the message.
    """
    if framework not in PINNED:
        names = {name: " ".join(pinned.then) for name, pinned in PINNED.items()}
        raise unknown_name("environment", framework, names)
    pinned = PINNED[framework]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.blake2b(repr((pinned, version)).encode(), digest_size=4).hexdigest()
    root = Path(platformdirs.user_cache_dir("tarmac")) / "environments"
    path = root / f"{framework}-{digest}"
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f"{path.name}.lock"):
        if not (path / "complete").exists():
            shutil.rmtree(path, ignore_errors=True)
            then = ("--no-build-isolation", *pinned.then) if pinned.first else pinned.then
            steps = [step for step in (pinned.first, then) if step]
            build_environment(path, sys.executable, steps, dict(pinned.variables))
            (path / "complete").touch()
    return Place(f"tarmac's {framework} environment", (str(path / "bin/python"),))
