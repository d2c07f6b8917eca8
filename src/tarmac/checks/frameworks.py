"""The table of the frameworks that Tarmac can check, each with its probe.

Installed packages add frameworks by entry points of the group ``tarmac.probes``. The entry point
has the framework's name, and loads a `Framework`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

from tarmac.environments import VenvSpec
from tarmac.errors import TarmacError, unknown_name
from tarmac.extensions import points_of

PROBES = Path(__file__).parent / "probes"

_GROUP = "tarmac.probes"


@dataclasses.dataclass(frozen=True)
class Framework:
    """A framework and its probe.

    Attributes:
        name: Name of the framework's module.
        title: Name of the framework in lists and messages.
        alias: Another name that users may type.
        pins: Environment of pinned versions, with files of ``environments/``; None where Tarmac
            builds none.
        backends: Names of the backends, one of which the framework chooses at import.
        backend_variable: Environment variable that chooses the backend.
        probe: File of the probe. Default: ``probes/NAME_probe.py``.
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


# MXNet and Chainer are retired, so their pins are their last versions with the newest NumPy that
# they work with. The examples of `tarmac run` use the same environments, built once for both.
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

# Several processes with PyTorch. The check adds it where PyTorch sees several GPUs, so users do not
# name it.
ALL_REDUCE = Framework("all-reduce", "All-reduce, by PyTorch", probe=PROBES / "all_reduce_probe.py")

# One training on each device, for `race`.
RACE = Framework("race", "One training on each device, by PyTorch", probe=PROBES / "race_probe.py")

# All devices busy for minutes, for `soak`.
SOAK = Framework("soak", "All devices at once, by PyTorch", probe=PROBES / "soak_probe.py")

# Tarmac's own frameworks, name to title.
FRAMEWORKS: Mapping[str, str] = {framework.name: framework.title for framework in _ALL}

# Frameworks for which an environment can be built, name to title.
PROVISIONED: Mapping[str, str] = {f.name: f.title for f in _ALL if f.pins is not None}

_BY_NAME = {name: f for f in _ALL for name in (f.name, f.alias) if name is not None}


def framework_names() -> tuple[str, ...]:
    """Return the names of Tarmac's own frameworks, then of those from installed packages."""
    provided = {point.name for point in points_of(_GROUP)}
    return (*FRAMEWORKS, *sorted(provided - _BY_NAME.keys()))


def framework_named(name: str) -> Framework | None:
    """Return a framework by its name or alias, ignoring case; None for an unknown name.

    Raises:
        TarmacError: A package that provides frameworks cannot be loaded.
    """
    name = name.strip().lower()
    return _BY_NAME.get(name) or _provided().get(name)


def find_framework(name: str) -> Framework:
    """Return a framework by its name or alias, ignoring case.

    Raises:
        RequestError: No framework has this name.
        TarmacError: A package that provides frameworks cannot be loaded.
    """
    framework = framework_named(name)
    if framework is None:
        titles = dict.fromkeys(framework_names(), "")
        raise unknown_name("framework", name, {**titles, **FRAMEWORKS})
    return framework


@functools.cache
def _provided() -> Mapping[str, Framework]:
    """Load the frameworks of installed packages, by name and alias."""
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
