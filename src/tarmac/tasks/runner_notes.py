"""Records of a run's runner jobs.

The file ``runners/N.json`` is created before the engine gets job N, and then holds the engine's
name for the job. Marks are files beside it: ``N.begun`` after the job has begun, ``N.warned`` when
its time is nearly over, and ``N.over`` when it must not begin any more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tarmac.errors import TarmacError
from tarmac.files import parse_json, read_errors, read_regular, storage_errors, write_json

_DIRECTORY = "runners"

# Marks a runner process as a job, with its number in the run: ``2:NAME``.
RUNNER_JOB = "TARMAC_RUNNER_JOB"

Mark = Literal["begun", "warned", "over"]


def own_number(run: Path) -> int | None:
    """Return the number of this process's runner job; None where it is no runner job of the run."""
    number, _, name = os.environ.get(RUNNER_JOB, "").partition(":")
    return int(number) if name == run.name else None


def last_runner(run: Path) -> int | None:
    """Return the number of a run's last runner job; None where no runner job is wanted."""
    numbers = runner_numbers(run)
    if not numbers or not runner_place(run, numbers[-1]) or is_marked(run, numbers[-1], "over"):
        return None
    return numbers[-1]


def reserve_runner(run: Path) -> int:
    """Reserve and return the number of the run's next runner job, unique across processes.

    Raises:
        StorageError: The record cannot be written.
    """
    with storage_errors(run):
        (run / _DIRECTORY).mkdir(exist_ok=True)
        number = max(runner_numbers(run), default=0) + 1
        while True:
            try:
                _file(run, number).open("x").close()
            except FileExistsError:
                number += 1
            else:
                return number


def runner_numbers(run: Path) -> Sequence[int]:
    """Return the numbers of a run's runner jobs, ascending."""
    stems = (path.stem for path in (run / _DIRECTORY).glob("*.json"))
    return sorted(int(stem) for stem in stems if stem.isdecimal())


def note_runner_place(run: Path, number: int, place: str) -> None:
    """Record the engine's name for a runner job."""
    write_json(_file(run, number), {"place": place})


def runner_place(run: Path, number: int) -> str:
    """Return the engine's name for a runner job; empty until the engine has answered."""
    path = _file(run, number)
    with read_errors(path):
        text = read_regular(path)
    try:
        return str(parse_json(text)["place"]) if text else ""
    except (ValueError, TypeError, KeyError) as error:
        raise TarmacError(f"{path} is damaged: {error}") from error


def runner_noted_at(run: Path, number: int) -> float:
    """Return the time at which a runner job's name was recorded, in seconds since 1970."""
    path = _file(run, number)
    with read_errors(path):
        return path.stat().st_mtime


def mark_runner(run: Path, number: int, mark: Mark) -> None:
    """Set a mark of a runner job."""
    with storage_errors(run):
        mark_file(run, number, mark).touch()


def is_marked(run: Path, number: int, mark: Mark) -> bool:
    """Whether a runner job has a mark."""
    return mark_file(run, number, mark).exists()


def mark_file(run: Path, number: int, mark: Mark) -> Path:
    """Return the path of the file that is a runner job's mark."""
    return run / _DIRECTORY / f"{number}.{mark}"


def _file(run: Path, number: int) -> Path:
    return run / _DIRECTORY / f"{number}.json"
