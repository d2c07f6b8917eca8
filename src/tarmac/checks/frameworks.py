"""The frameworks that can be checked: their names, and the versions that an environment pins."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.environments import VenvSpec
from tarmac.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FRAMEWORKS", "PROVISIONED", "Framework", "find_framework", "framework_named"]


@dataclasses.dataclass(frozen=True)
class Framework:
    """A framework that a probe of the same name, ``probes/NAME_probe.py``, makes compute.

    Attributes:
        name: The module that is imported.
        title: For people.
        alias: What it is called too.
        pins: An environment of versions that work together, with files of ``environments/``; None
            for PyTorch, which Tarmac itself needs.
        backends: What it can compute through, and chooses at import.
    """

    name: str
    title: str
    alias: str | None = None
    pins: VenvSpec | None = None
    backends: tuple[str, ...] = ()


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

FRAMEWORKS: Mapping[str, str] = {framework.name: framework.title for framework in _ALL}

# Those that an environment can be built for.
PROVISIONED: Mapping[str, str] = {f.name: f.title for f in _ALL if f.pins is not None}

_BY_NAME = {name: f for f in _ALL for name in (f.name, f.alias) if name is not None}


def framework_named(name: str) -> Framework | None:
    """Return the framework of a name or an alias, in any case; None where there is none."""
    return _BY_NAME.get(name.strip().lower())


def find_framework(name: str) -> Framework:
    """Return the framework of a name or an alias, in any case.

    Raises:
        RequestError: There is none.
    """
    found = framework_named(name)
    if found is None:
        raise unknown_name("framework", name, FRAMEWORKS)
    return found
