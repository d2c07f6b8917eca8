"""The table of the frameworks that can be checked, each with its probe.

Installed packages add to it by entry points of the group ``tarmac.probes``: the entry point's name
is the framework's, and what it loads is a `Framework`.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.environments import VenvSpec
from tarmac.errors import TarmacError, unknown_name
from tarmac.extensions import points_of

if TYPE_CHECKING:
    from collections.abc import Mapping

PROBES = Path(__file__).parent / "probes"

_GROUP = "tarmac.probes"


@dataclasses.dataclass(frozen=True)
class Framework:
    """A framework, and the probe that makes it compute.

    Attributes:
        name: The module that is imported.
        title: What it is called in lists and messages.
        alias: Another name that users may give.
        pins: An environment of versions that work together, with files of ``environments/``; None
            where none is built.
        backends: What it can compute through, and chooses at import.
        backend_variable: The environment variable by which it chooses.
        probe: The probe's file; by default ``probes/NAME_probe.py``.
    """

    name: str
    title: str
    alias: str | None = None
    pins: VenvSpec | None = None
    backends: tuple[str, ...] = ()
    backend_variable: str = ""
    probe: Path | None = None

    @property
    def program(self) -> Path:
        """The probe's file."""
        return self.probe or PROBES / f"{self.name}_probe.py"


# MXNet and Chainer are retired: their last versions, with the newest NumPy that they run with. The
# examples of `tarmac run` have the same environments, which are therefore built once for both.
_ALL = (
    Framework("torch", "PyTorch", alias="pytorch"),
    Framework(
        "tensorflow",
        "TensorFlow",
        alias="tf",
        pins=VenvSpec(requirements=("-r tensorflow.txt",)),
    ),
    Framework(
        "keras",
        "Keras, on each of its backends",
        pins=VenvSpec(requirements=("-r keras.txt",)),
        backends=("tensorflow", "jax", "torch"),
        backend_variable="KERAS_BACKEND",
    ),
    Framework("jax", "JAX", pins=VenvSpec(requirements=("-r jax.txt",))),
    Framework("mxnet", "MXNet", pins=VenvSpec(requirements=("-r mxnet.txt",))),
    Framework(
        "chainer",
        "Chainer, with CuPy",
        pins=VenvSpec(requirements=("chainer==7.8.1",), before=("-r chainer.txt",)),
    ),
    Framework(
        "horovod",
        "Horovod, with each framework that it is built for",
        pins=VenvSpec(
            requirements=("horovod==0.28.1",),
            before=("-r horovod.txt",),
            build_env={
                "HOROVOD_WITH_MXNET": "1",
                "HOROVOD_WITH_GLOO": "1",
                "HOROVOD_WITHOUT_MPI": "1",
                "HOROVOD_WITHOUT_PYTORCH": "1",
                "HOROVOD_WITHOUT_TENSORFLOW": "1",
            },
        ),
    ),
)

# Several processes by PyTorch. It follows from what PyTorch sees, so users do not name it.
ALL_REDUCE = Framework("all-reduce", "All-reduce, by PyTorch", probe=PROBES / "all_reduce_probe.py")

# One training on each device, where that is asked for.
RACE = Framework("race", "One training on each device, by PyTorch", probe=PROBES / "race_probe.py")

# Every device at work for minutes, where that is asked for.
SOAK = Framework("soak", "All devices at once, by PyTorch", probe=PROBES / "soak_probe.py")

# Tarmac's own, name to title.
FRAMEWORKS: Mapping[str, str] = {framework.name: framework.title for framework in _ALL}

# Those that an environment can be built for.
PROVISIONED: Mapping[str, str] = {f.name: f.title for f in _ALL if f.pins is not None}

_BY_NAME = {name: f for f in _ALL for name in (f.name, f.alias) if name is not None}


def framework_names() -> tuple[str, ...]:
    """Return the names of Tarmac's own frameworks, then of those that packages provide."""
    provided = {point.name for point in points_of(_GROUP)}
    return (*FRAMEWORKS, *sorted(provided - _BY_NAME.keys()))


def framework_named(name: str) -> Framework | None:
    """Return the framework of a name or an alias, in any case; None where there is none.

    Raises:
        TarmacError: A package that provides frameworks cannot be loaded.
    """
    name = name.strip().lower()
    return _BY_NAME.get(name) or _provided().get(name)


def find_framework(name: str) -> Framework:
    """Return the framework of a name or an alias, in any case.

    Raises:
        RequestError: There is none.
        TarmacError: A package that provides frameworks cannot be loaded.
    """
    framework = framework_named(name)
    if framework is None:
        titles = dict.fromkeys(framework_names(), "")
        raise unknown_name("framework", name, {**titles, **FRAMEWORKS})
    return framework


@functools.cache
def _provided() -> Mapping[str, Framework]:
    """Load what installed packages provide, by name and alias."""
    frameworks: dict[str, Framework] = {}
    for point in points_of(_GROUP):
        try:
            framework = point.load()
        except Exception as error:
            raise TarmacError(
                f"probe {point.name!r} of {point.value} failed to load: "
                f"{type(error).__name__}: {error}",
                hint="Fix or uninstall the package that provides it",
            ) from error
        if not isinstance(framework, Framework) or framework.name != point.name:
            raise TarmacError(
                f"probe {point.name!r} of {point.value} is {framework!r}, expected a Framework of "
                "that name",
                hint="Fix or uninstall the package that provides it",
            )
        for name in (framework.name, framework.alias):
            if name is not None and name not in _BY_NAME:
                frameworks[name.lower()] = framework
    return frameworks
