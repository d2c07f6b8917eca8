"""Where probes run: an interpreter, a container image, or an environment built for a framework."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import platformdirs
from filelock import FileLock

from tarmac.errors import RequestError, TarmacError, unknown_name

__all__ = ["PINNED", "THIS_PYTHON", "Place", "container_place", "provisioned_place", "python_place"]

_BUILD_S = 1800


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
    for engine in ("docker", "podman"):
        program = shutil.which(engine)
        if program is None:
            continue
        answer = subprocess.run(
            [program, "version"], capture_output=True, text=True, timeout=60, check=False
        )
        if answer.returncode == 0:
            return Place(image, (program,), image)
        said = answer.stderr.strip().splitlines()
        raise RequestError(
            f"--image {image}: {engine} does not answer: {said[-1] if said else 'no word'}",
            hint="Start it: sudo systemctl start docker",
        )
    raise RequestError(
        f"--image {image}: neither docker nor podman is here", hint="sudo apt install docker.io"
    )


def provisioned_place(framework: str) -> Place:
    """Build an environment of pinned versions for a framework, once, and return its place.

    Raises:
        RequestError: There are no pins for it.
        TarmacError: It could not be built; pip's own words are in the message.
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
            _build(path, pinned)
            (path / "complete").touch()
    return Place(f"tarmac's {framework} environment", (str(path / "bin/python"),))


def _build(path: Path, pinned: _Pinned) -> None:
    _run([sys.executable, "-m", "venv", str(path)], {})
    pip = [str(path / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
    variables = {**dict(pinned.variables), "PATH": f"{path / 'bin'}:{os.environ.get('PATH', '')}"}
    if pinned.first:
        _run([*pip, *pinned.first], variables)
        _run([*pip, "--no-build-isolation", *pinned.then], variables)
    else:
        _run([*pip, *pinned.then], variables)


def _run(command: list[str], variables: dict[str, str]) -> None:
    with tempfile.TemporaryFile() as log:
        done = subprocess.run(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            timeout=_BUILD_S,
            check=False,
        )
        if done.returncode != 0:
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()
            raise TarmacError(
                "the environment could not be built: " + " ".join(command[-2:]),
                hint="\n".join(said[-8:]),
            )
