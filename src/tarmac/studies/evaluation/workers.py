"""Worker processes that train: started with threads of their own, and served."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from tarmac.files import storage_errors
from tarmac.processes import Worker, serve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tarmac.processes import Conversation

# A worker of a search is no rank of a training, whatever started the search.
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def start_worker(program: str, num_threads: int, log: Path) -> Worker:
    """Start a process that trains.

    Args:
        program: A module that calls `serve_trainings`.
        num_threads: Its threads on a CPU; 0 for PyTorch's default.
        log: A file to which it appends what it prints.

    Raises:
        StorageError: The log cannot be written.
    """
    environment = {key: value for key, value in os.environ.items() if key not in _RANK_VARIABLES}
    if num_threads:
        environment["OMP_NUM_THREADS"] = str(num_threads)
    with storage_errors(log):
        return Worker(program, str(num_threads), log=log, environment=environment)


def was_asked_to_end(worker: Worker) -> bool:
    """Whether a worker that has ended was asked to, as a scheduler asks all processes of a job.

    It is no fault of what it trained, also where the process that searches has not heard of it yet.
    """
    return worker.exit_code() == -signal.SIGTERM


def serve_trainings(work: Callable[[dict[str, Any], Conversation], None]) -> NoReturn:
    """Train what comes in, until the input ends; in a process that `start_worker` started.

    Args:
        work: Does a job, given its message, and sends how it went.
    """
    num_threads = int(sys.argv[1])
    if num_threads:
        torch.set_num_threads(num_threads)
    serve(work)
