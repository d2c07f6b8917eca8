"""The distribution that Tarmac is installed from: its name, its extras, and what brings one.

The core checks machines and runs jobs without PyTorch; what needs more is an extra. The name is
said here alone: ``tarmac`` on the package index is somebody else's.

Example:
    >>> install_hint("objects")
    "pip install 'tarmac-gpu[objects]'"
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Iterator

DISTRIBUTION = "tarmac-gpu"
# What the command line is started by: pyproject.toml's scripts, and `python -m tarmac`. The second
# script lets `uvx tarmac-gpu check` find one of the distribution's name.
SCRIPTS = ("tarmac", "tarmac-gpu", "__main__.py")


class MissingExtraError(RequestError, ImportError):
    """A package is not installed that an extra brings; also an ImportError, as Python has it."""


@dataclasses.dataclass(frozen=True)
class _Package:
    """A package that an extra brings: its name, that extra, and what needs it."""

    name: str
    extra: str
    purpose: str


_TORCH = _Package("PyTorch", "train", "training needs")
_PACKAGES = {
    "torch": _TORCH,
    "safetensors": _Package("safetensors", "train", "training needs"),
    "optuna": _Package("Optuna", "search", "a search needs"),
    "cmaes": _Package("cmaes", "search", "method cmaes needs"),
    "optuna_dashboard": _Package("optuna-dashboard", "search", "the dashboard needs"),
    "obstore": _Package("obstore", "objects", "object stores need"),
    "PIL": _Package("pillow", "images", "reading images needs"),
    "pyarrow": _Package("pyarrow", "tables", "reading tables needs"),
    "torchmetrics": _Package("torchmetrics", "metrics", "metrics of all samples together need"),
    "datasets": _Package("datasets", "huggingface", "Hugging Face's datasets need"),
    "onnx": _Package("onnx", "export", "ONNX needs"),
    "onnxruntime": _Package("onnxruntime", "export", "ONNX needs"),
    "onnxscript": _Package("onnxscript", "export", "ONNX needs"),
    "wandb": _Package("Weights & Biases' client", "wandb", "tracking needs"),
    "mlflow": _Package("mlflow-skinny", "mlflow", "tracking needs"),
    "rattler": _Package("py-rattler", "conda", "environments of conda need"),
    "tensorboard": _Package("TensorBoard", "tensorboard", "its graph needs"),
    "websockets": _Package("websockets", "hkube", "HKube's protocol needs"),
    "msgpack": _Package("msgpack", "hkube", "HKube's protocol needs"),
    "prometheus_client": _Package("prometheus-client", "watch", "metrics need"),
    "bson": _Package("pymongo", "hkube", "HKube's protocol needs"),
    "textual": _Package("Textual", "watch", "the screen of tarmac top needs"),
    "textual_serve": _Package("textual-serve", "watch", "tarmac top --web needs"),
    # What textual-serve itself stands on, and is imported first.
    "aiohttp": _Package("textual-serve", "watch", "tarmac top --web needs"),
    "starlette": _Package("Starlette", "watch", "its server needs"),
    "uvicorn": _Package("uvicorn", "watch", "its server needs"),
}
# Packages that people's own programs import, by modules. Keras alone lacks what computes.
_OTHERS = {
    "PIL": "pillow",
    "chainer": "chainer",
    "cv2": "opencv-python",
    "flax": "flax",
    "jax": "jax",
    "keras": "tensorflow",
    "lightning": "lightning",
    "matplotlib": "matplotlib",
    "pandas": "pandas",
    "scipy": "scipy",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "tensorflow": "tensorflow",
    "timm": "timm",
    "torchvision": "torchvision",
    "tqdm": "tqdm",
    "transformers": "transformers",
    "yaml": "pyyaml",
}
# PyTorch in each: the build that a package index gives need not be the one for a machine's driver.
_CHOOSE_BUILD = "For the PyTorch that fits your CUDA: https://pytorch.org/get-started/locally/"
_WITH_TORCH = ("train", "search")


def install_hint(extra: str) -> str:
    """Return what brings an extra, such as ``train``."""
    command = f"pip install '{DISTRIBUTION}[{extra}]'"
    return f"{command}\n{_CHOOSE_BUILD}" if extra in _WITH_TORCH else command


def upgrade_hint() -> str:
    """Return what brings a newer Tarmac."""
    return f"Upgrade: pip install --upgrade {DISTRIBUTION}"


def installed_version() -> str:
    """Return Tarmac's version; ``0+unknown`` where its code alone was copied.

    A checkout that is used by PYTHONPATH, without an installation, says its own in pyproject.toml.
    """
    # Costs --help a tenth of its time.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return _version_of_checkout(Path(__file__).parents[2]) or "0+unknown"


def _version_of_checkout(root: Path) -> str | None:
    import tomllib  # noqa: PLC0415 - needed where nothing is installed alone

    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError):
        return None
    return str(project["version"]) if project.get("name") == DISTRIBUTION else None


def what_brings(module: str) -> str | None:
    """Return what brings a module that an import did not find; None where that is not known."""
    name = module.partition(".")[0]
    if name in _PACKAGES:
        return install_hint(_PACKAGES[name].extra)
    # A name of the user's own may be a stranger's on the package index.
    return f"pip install {_OTHERS[name]}" if name in _OTHERS else None


def package_of(module: str) -> str:
    """Return the package that brings a module: ``scikit-learn`` for ``sklearn``."""
    return _OTHERS.get(module, module)


def require(module: str, subject: str = "") -> None:
    """Refuse to go on without a package that an extra brings.

    Args:
        module: What would be imported: ``obstore``.
        subject: What the message begins with, such as a file or a URI.

    Raises:
        MissingExtraError: It is not installed.
    """
    if importlib.util.find_spec(module) is None:
        raise _missing(_PACKAGES[module], _PACKAGES[module].extra, subject)


@contextlib.contextmanager
def explained_imports(extra: str | None = None) -> Iterator[None]:
    """Name the extra that brings what an import within does not find, and the limit that ends one.

    Args:
        extra: The one to name; by default the smallest that brings it.

    Raises:
        MissingExtraError: A package of an extra is missing.
        TarmacError: This process may take no more memory, or start no more threads.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = _PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise _missing(package, extra or package.extra) from error
    except (ImportError, OSError, RuntimeError, MemoryError) as error:
        if (explained := _beyond_limit(error)) is None:
            raise
        raise explained from error


def _beyond_limit(error: Exception) -> TarmacError | None:
    """Return what an error that a limit of this process has caused means; None of any other."""
    # NumPy puts the loader's line into a page of its own.
    if unmapped := re.search(r"\S+: failed to map segment from shared object", str(error)):
        return TarmacError(
            f"a library does not fit into memory: {unmapped[0]}",
            hint="See the limit, in KiB: ulimit -v. Where it says unlimited, the library lies on a "
            "file system\nthat is mounted noexec. More: tarmac check --explain memory-limit",
        )
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return TarmacError(
            f"out of memory: {error}".removesuffix(": "),
            hint="See what is free, and the limit, in KiB: free -h; ulimit -v\n"
            "More: tarmac check --explain host-memory",
        )
    if "can't start new thread" in str(error):
        return TarmacError(
            "no more threads can be started",
            hint="See the limits: ulimit -u; ulimit -v; cat /sys/fs/cgroup/pids.max\n"
            "More: tarmac check --explain processes-limit",
        )
    return None


def _missing(package: _Package, extra: str, subject: str = "") -> MissingExtraError:
    before = f"{subject}: " if subject else ""
    return MissingExtraError(
        f"{before}{package.purpose} {package.name}, which is not installed",
        hint=install_hint(extra),
    )
