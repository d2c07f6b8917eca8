"""The distribution of Tarmac: its name, version, extras and install commands.

The core checks machines and runs jobs without PyTorch. Extras install the rest. Only this module
holds the distribution's name: ``tarmac`` on the package index is another project.

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
from collections.abc import Iterator
from pathlib import Path

from tarmac.errors import RequestError, TarmacError

DISTRIBUTION = "tarmac-gpu"
# Names of the command line's program: pyproject.toml's scripts, and `python -m tarmac`. The second
# script makes `uvx tarmac-gpu check` work: uvx starts the script named like the distribution.
SCRIPTS = ("tarmac", "tarmac-gpu", "__main__.py")


class MissingExtraError(RequestError, ImportError):
    """A package of an extra is not installed. Also an ImportError, as Python code expects."""


@dataclasses.dataclass(frozen=True)
class _Package:
    """A package that an extra installs. ``purpose`` begins the message about a missing package."""

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
    # A dependency of textual-serve that is imported first.
    "aiohttp": _Package("textual-serve", "watch", "tarmac top --web needs"),
    "starlette": _Package("Starlette", "watch", "its server needs"),
    "uvicorn": _Package("uvicorn", "watch", "its server needs"),
}
# Packages that users' programs import, by module. Keras needs a backend, such as TensorFlow.
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
# Extras that install PyTorch: the package index's build may not fit the machine's driver.
_CHOOSE_BUILD = "For the PyTorch that fits your CUDA: https://pytorch.org/get-started/locally/"
_WITH_TORCH = ("train", "search")


def install_hint(extra: str) -> str:
    """Return the command that installs an extra, such as ``train``."""
    command = f"pip install '{DISTRIBUTION}[{extra}]'"
    return f"{command}\n{_CHOOSE_BUILD}" if extra in _WITH_TORCH else command


def upgrade_hint() -> str:
    """Return a hint with the command that upgrades Tarmac."""
    return f"Upgrade: pip install --upgrade {DISTRIBUTION}"


def installed_version() -> str:
    """Return Tarmac's version; ``0+unknown`` for a bare copy of its code.

    A checkout on PYTHONPATH without an installation takes its version from pyproject.toml.
    """
    # Imported here: the import takes a tenth of the time of --help.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return _version_of_checkout(Path(__file__).parents[2]) or "0+unknown"


def _version_of_checkout(root: Path) -> str | None:
    import tomllib  # noqa: PLC0415 - needed only where nothing is installed

    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError):
        return None
    return str(project["version"]) if project.get("name") == DISTRIBUTION else None


def what_brings(module: str) -> str | None:
    """Return the command that installs a module whose import failed; None if unknown."""
    name = module.partition(".")[0]
    if name in _PACKAGES:
        return install_hint(_PACKAGES[name].extra)
    # Suggest known names only: a user's own module may share its name with a stranger's package.
    return f"pip install {_OTHERS[name]}" if name in _OTHERS else None


def package_of(module: str) -> str:
    """Return the package that provides a module: ``scikit-learn`` for ``sklearn``."""
    return _OTHERS.get(module, module)


def require(module: str, subject: str = "") -> None:
    """Raise an error if a package of an extra is not installed.

    Args:
        module: Name of the package's module, such as ``obstore``.
        subject: Start of the error message, such as a file or a URI. Default: none.

    Raises:
        MissingExtraError: The package is not installed.
    """
    if importlib.util.find_spec(module) is None:
        raise _missing(_PACKAGES[module], _PACKAGES[module].extra, subject)


@contextlib.contextmanager
def explained_imports(extra: str | None = None) -> Iterator[None]:
    """Turn import errors into errors that name the missing extra or the exceeded limit.

    Args:
        extra: Extra to name. Default: the smallest extra that has the package.

    Raises:
        MissingExtraError: A package of an extra is missing.
        TarmacError: The process exceeded its limit of memory or threads.
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
    """Return the error for an exceeded limit of this process; None for any other cause."""
    # NumPy surrounds the loader's line with a page of its own text.
    if unmapped := re.search(r"\S+: failed to map segment from shared object", str(error)):
        return TarmacError(
            f"a library does not fit into memory: {unmapped[0]}",
            hint="See the limit, in KiB: ulimit -v. If it says unlimited, the library is on a "
            "file system\nthat is mounted noexec. Read more: tarmac check --explain memory-limit",
        )
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return TarmacError(
            f"out of memory: {error}".removesuffix(": "),
            hint="See what is free, and the limit, in KiB: free -h; ulimit -v\n"
            "Read more: tarmac check --explain host-memory",
        )
    if "can't start new thread" in str(error):
        return TarmacError(
            "no more threads can be started",
            hint="See the limits: ulimit -u; ulimit -v; cat /sys/fs/cgroup/pids.max\n"
            "Read more: tarmac check --explain processes-limit",
        )
    return None


def _missing(package: _Package, extra: str, subject: str = "") -> MissingExtraError:
    before = f"{subject}: " if subject else ""
    return MissingExtraError(
        f"{before}{package.purpose} {package.name}, which is not installed",
        hint=install_hint(extra),
    )
