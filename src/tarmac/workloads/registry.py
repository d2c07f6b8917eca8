"""Find workloads: reference workloads, and those of installed packages and of files."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType

from tarmac.distribution import what_brings
from tarmac.errors import RequestError, TarmacError, quoted, unknown_name
from tarmac.extensions import load_provided, names_with_provided
from tarmac.files import passes_over
from tarmac.workloads.base import Workload
from tarmac.workloads.programs import refuse_program

_GROUP = "tarmac.workloads"

_REFERENCE = {
    "digits-mlp": "tarmac.workloads.digits_mlp",
    "diabetes-mlp": "tarmac.workloads.diabetes_mlp",
    "table-mlp": "tarmac.workloads.table_mlp",
    "digits-autoencoder": "tarmac.workloads.digits_autoencoder",
    "mnist-mlp": "tarmac.workloads.mnist_mlp",
    "mnist-cnn": "tarmac.workloads.mnist_cnn",
    "mnist-convnet": "tarmac.workloads.mnist_convnet",
    "mnist-chainer-mlp": "tarmac.workloads.mnist_chainer_mlp",
    "mnist-fast": "tarmac.workloads.mnist_fast",
    "cifar10-fast": "tarmac.workloads.cifar10_fast",
    "cifar10-convnet": "tarmac.workloads.cifar10_convnet",
    "resnet50": "tarmac.workloads.resnet50",
    "mlp": "tarmac.workloads.mlp",
    "char-gpt": "tarmac.workloads.char_gpt",
    "char-gpt-small": "tarmac.workloads.char_gpt_small",
    "gpt2-124m": "tarmac.workloads.gpt2_124m",
}


def workload_names() -> tuple[str, ...]:
    """Return the names of the reference workloads, then of the workloads of packages."""
    return names_with_provided(_GROUP, _REFERENCE)


def find_workload(reference: str) -> Workload:
    """Find a workload.

    Args:
        reference: A name from `workload_names`, or ``path/to/file.py:attribute``.

    Raises:
        RequestError: The workload does not exist, or the object is not a `Workload`.
        TarmacError: The workload's file or package failed to import.
    """
    path_text, separator, attribute = reference.rpartition(":")
    if separator and path_text.endswith(".py"):
        refuse_program(Path(path_text), attribute)
        return _checked(_load_file(Path(path_text)), attribute, reference)
    if reference.endswith(".py"):
        if not Path(reference).is_file():
            raise RequestError(f"workload file {reference!r} does not exist")
        refuse_program(Path(reference), None)
    if reference in _REFERENCE:
        return _checked(importlib.import_module(_REFERENCE[reference]), "workload", reference)
    workload = load_provided(_GROUP, "workload", reference, Workload, is_named=False)
    if workload is not None:
        return workload
    raise _unknown(reference)


def check_reference(reference: str) -> None:
    """Check the form of a workload reference, without opening or importing its file.

    Raises:
        RequestError: The name is unknown, or a file is named without the workload in it.
    """
    path_text, separator, _ = reference.rpartition(":")
    is_in_file = separator and path_text.endswith(".py")
    if not is_in_file and reference not in workload_names():
        raise _unknown(reference)


def _unknown(reference: str) -> RequestError:
    if reference.endswith(".py"):
        return RequestError(
            f"workload {reference!r} names a file only",
            hint=f"Name the workload in it too: {reference}:workload",
        )
    if reference.endswith((".yaml", ".yml")):
        return RequestError(
            f"{reference!r} is no workload",
            hint=f"Run a study: tarmac search {quoted(reference)}\n"
            f"Run a job: tarmac run {quoted(reference)}",
        )
    module, _, attribute = reference.rpartition(":" if ":" in reference else ".")
    files = (f"{module}.py", f"{module.replace('.', '/')}.py")
    file = next((file for file in files if Path(file).is_file()), None)
    if file is not None:
        return RequestError(
            f"unknown workload {reference!r}, did you mean {f'{file}:{attribute}'!r}?",
            hint="A workload of a file is named by the file's path.",
        )
    return unknown_name("workload", reference, dict.fromkeys(workload_names(), ""))


def reference_of(workload: Workload) -> str:
    """Return a reference by which `find_workload` finds a workload in any process.

    Raises:
        RequestError: The workload is no attribute of a module with a file.
    """
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if file is None or not file.endswith(".py"):
            continue
        for attribute, value in [*vars(module).items()]:
            if value is workload:
                return f"{Path(file).resolve()}:{attribute}"
    raise RequestError(
        f"workload {workload.name!r} is defined where other processes cannot find it",
        hint="Define it in a file at the top level, as: workload = Workload(...)",
    )


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise RequestError(f"workload file {str(path)!r} does not exist")
    # The name depends on the path, so that two files named model.py get different modules.
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"{path.stem}_{digest}"
    loader = _AsItIs(name, str(path.absolute()))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise RequestError(f"workload file {str(path)!r} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        with _importing_from(path.resolve().parent):
            spec.loader.exec_module(module)
    except TarmacError:
        raise
    except Exception as error:
        line = _line_in(path, error)
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        raise TarmacError(
            f"{path}:{line}: {type(error).__name__}: {error}",
            hint=None if missing is None else what_brings(missing),
        ) from error
    return module


@contextlib.contextmanager
def _importing_from(directory: Path) -> Iterator[None]:
    """Let a file import modules from its directory, after the standard library on the path.

    Before the standard library, a user's ``types.py`` would replace Python's for all imports. The
    directory comes before other packages, so that a user's ``datasets.py`` takes precedence.
    """
    if directory.stat().st_mode & stat.S_IWOTH:
        # In a world-writable directory, modules may belong to other users: the finder skips them,
        # and installed packages take precedence.
        finder = _OwnNeighbours(directory)
        sys.meta_path.append(finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
        return
    entry, library = str(directory), Path(os.__file__).parent
    own = (str(library), str(library / "lib-dynload"))
    is_new = entry not in sys.path
    if is_new:
        last = max((i for i, other in enumerate(sys.path) if other in own), default=-1)
        sys.path.insert(last + 1, entry)
    try:
        yield
    finally:
        if is_new and entry in sys.path:
            sys.path.remove(entry)


class _OwnNeighbours(importlib.abc.MetaPathFinder):
    """A finder for modules in a world-writable directory that skips other users' files.

    Compiled files are ignored too, because any user may have written them.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if path is not None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, [str(self._directory)], target)
        if spec is None:
            return None
        name = fullname if spec.submodule_search_locations else Path(spec.origin or "").name
        if passes_over(self._directory / name):
            return None
        if spec.origin and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _AsItIs(fullname, spec.origin)
        return spec


class _AsItIs(importlib.machinery.SourceFileLoader):
    """A loader that compiles the source every time.

    Python reuses the compiled file of a source with the same size and modification second, as after
    a quick edit.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def _line_in(path: Path, error: Exception) -> int:
    """Return the last line of ``path`` in the error's traceback; 0 if there is none."""
    line = error.lineno or 0 if isinstance(error, SyntaxError) else 0
    traceback = error.__traceback__
    while traceback is not None:
        # Code objects hold absolute paths.
        if traceback.tb_frame.f_code.co_filename == str(path.absolute()):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _checked(module: ModuleType, attribute: str, reference: str) -> Workload:
    if not hasattr(module, attribute):
        names = {name: "" for name, value in vars(module).items() if isinstance(value, Workload)}
        raise unknown_name(f"workload in {module.__file__}", attribute, names)
    return _instance(getattr(module, attribute), reference)


def _instance(loaded: object, reference: str) -> Workload:
    if not isinstance(loaded, Workload):
        is_program = callable(loaded) and not isinstance(loaded, type)
        hint = (
            "A function that trains by itself becomes a workload: see docs/take-over.md, or run it "
            "as it is: tarmac run FILE, with command: python FILE"
            if is_program
            else None
        )
        raise RequestError(
            f"{reference!r} is of type {type(loaded).__name__}, expected a tarmac Workload",
            hint=hint,
        )
    return loaded
