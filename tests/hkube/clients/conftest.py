"""HKube's own clients, installed once into the user's cache."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from kept import install, kept

from tarmac.environments import VenvSpec, build_venv
from tarmac.errors import TarmacError

HERE = Path(__file__).parent

# What the wrapper imports, in versions that Python 3.11 to 3.14 have wheels of: what it asks for is
# of Python 3.10 and older. With a later websocket-client it never connects; this one masks large
# messages by NumPy, or byte after byte.
_WRAPPER_NEEDS = (
    "boto3", "Events==0.4", "jaeger-client==4.8.0", "msgpack", "numpy", "pymongo", "pympler",
    "pyzmq", "setuptools", "simplejson", "six", "websocket-client==0.57.0",
)  # fmt: skip
_NODE = "node_algorithm.js"


@dataclasses.dataclass(frozen=True)
class Client:
    """What runs an algorithm.

    Attributes:
        command: Starts it.
        environment: What it needs to be started.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _python_wrapper(version: str) -> Client:
    try:
        venv = build_venv(VenvSpec(_WRAPPER_NEEDS), HERE)
    except TarmacError as error:
        pytest.skip(f"what HKube's Python wrapper needs cannot be installed: {error.hint}")
    with kept(f"python-{version}") as (path, unfinished):
        if unfinished is not None:
            install(
                "HKube's Python wrapper",
                [
                    *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
                    *(f"hkube-python-wrapper=={version}", f"--target={unfinished}"),
                ],
            )
    python = str(venv / "bin" / "python")
    return Client((python, str(HERE / "python_algorithm.py")), {"PYTHONPATH": str(path)})


def _node_wrapper(packages: Path) -> Client:
    # It reads a package.json of the directory that it is started in.
    line = f"cd {shlex.quote(str(packages.parent))} && exec node {shlex.quote(str(HERE / _NODE))}"
    return Client(("sh", "-c", line), {"NODE_PATH": str(packages)})


@pytest.fixture(scope="session")
def client_of(node_packages):
    """Return a function that gives a client by its name, such as ``python 2.4.2``."""
    made = {}

    def give(name: str) -> Client:
        if name not in made:
            kind, _, version = name.partition(" ")
            if kind == "python":
                made[name] = _python_wrapper(version)
            elif kind == "node":
                # ZeroMQ, by which peers would talk, is loaded and not used. The release that is
                # asked for is compiled when it is installed; this one brings what it needs.
                wanted = f"@hkube/nodejs-wrapper@{version}"
                made[name] = _node_wrapper(node_packages(wanted, zeromq="6.4.2"))
            else:
                command = (sys.executable, str(HERE / "original_client.py"))
                made[name] = Client(command)
        return made[name]

    return give
