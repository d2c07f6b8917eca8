"""The task file that a runner writes for a node, and the ending file that the node writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tarmac.errors import TarmacError
from tarmac.files import StorageError, atomic_writer, read_errors
from tarmac.formats import Algorithm
from tarmac.hkube.hosting import Ending, Work
from tarmac.hkube.values import pack, unpack
from tarmac.jobs import Job
from tarmac.masking import without_known_in

# Fields of an algorithm that its host needs besides the job.
_OF_ALGORITHMS = ("name", "protocol", "env", "options", "worker_env", "definition")

# Fields of a task that its node does not need: the task is alone there, and has one attempt.
_NOT_OF_WORK = ("caller",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeTaskSpec:
    """A task for a node.

    Attributes:
        work: Task to run, with one attempt: the runner handles retries.
        algorithm: Algorithm that runs the task, with its job as the node runs it.
        base: Directory that relative paths of that job start from.
        fake_gpus: Number of GPUs to pretend on the node. Default 0: use the real ones.
    """

    work: Work
    algorithm: Algorithm
    base: Path
    fake_gpus: int = 0

    def write(self, path: Path) -> None:
        """Write the file atomically.

        Raises:
            StorageError: The file cannot be written.
            TarmacError: The task's input is no plain value.
        """
        work = {field: getattr(self.work, field) for field in _WORK}
        values = {
            "work": {name: _plain(value) for name, value in work.items()},
            "algorithm": {name: _plain(getattr(self.algorithm, name)) for name in _OF_ALGORITHMS},
            "job": self.algorithm.job.model_dump(mode="json", by_alias=True, exclude_unset=True),
            "base": str(self.base),
            "fake_gpus": self.fake_gpus,
        }
        _write(path, values)

    @classmethod
    def read(cls, path: Path) -> NodeTaskSpec:
        """Read the file.

        Raises:
            StorageError: The file cannot be read.
            TarmacError: The file is damaged, or of another version of Tarmac.
        """
        values = _read(path)
        try:
            return cls(
                work=Work(**values["work"]),
                algorithm=Algorithm(job=Job.model_validate(values["job"]), **values["algorithm"]),
                base=Path(values["base"]),
                fake_gpus=values["fake_gpus"],
            )
        except (KeyError, TypeError, ValidationError) as error:
            raise TarmacError(f"{path} is damaged: {error}") from error


_WORK = tuple(field.name for field in dataclasses.fields(Work) if field.name not in _NOT_OF_WORK)


def errand_file(directory: Path, number: int) -> Path:
    """Return the path of an attempt's task file.

    Args:
        directory: Directory of the task, which holds the files of all its attempts.
        number: Number of the attempt within its task, from 1.
    """
    return directory / f"errand-{number}.msgpack"


def ending_file(errand: Path) -> Path:
    """Return the path of the ending file for a task file."""
    return errand.with_name(errand.name.replace("errand", "ending", 1))


def write_ending(path: Path, ending: Ending) -> None:
    """Write the ending of a task atomically; a result that cannot be stored fails the task.

    Raises:
        StorageError: The file cannot be written.
    """
    ending = without_known_in(ending, "message", "details")
    values = {
        field.name: getattr(ending, field.name)
        for field in dataclasses.fields(Ending)
        if field.name != "work"
    }
    try:
        _write(path, values)
    except StorageError:
        raise
    except TarmacError as error:
        failed = dataclasses.replace(ending, value=None, why="error", message=error.message)
        write_ending(path, failed)


def read_ending(path: Path, work: Work) -> Ending | None:
    """Read the ending of a task; None if its node has not written one.

    Args:
        path: File that the node writes, from `ending_file`.
        work: Task that the file is about, which the returned ending carries.

    Raises:
        StorageError: The file cannot be read.
        TarmacError: The file is damaged.
    """
    # A fresh directory listing makes a network file system ask its server for new files.
    with read_errors(path):
        if path.name not in {file.name for file in path.parent.iterdir()}:
            return None
    try:
        return Ending(work=work, **_read(path))
    except TypeError as error:
        raise TarmacError(f"{path} is damaged: {error}") from error


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _write(path: Path, values: Mapping[str, Any]) -> None:
    packed = pack(values)
    with atomic_writer(path) as file:
        file.write(packed)


def _read(path: Path) -> dict[str, Any]:
    with read_errors(path):
        content = path.read_bytes()
    values = unpack(content)
    if not isinstance(values, dict):
        raise TarmacError(f"{path} is damaged: it holds no mapping")
    return values
