"""Start and serve the worker processes that train."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

from tarmac.files import storage_errors
from tarmac.processes import Conversation, Worker, serve

# A worker of a search is no rank, even if a distributed launcher started the search.
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def start_worker(program: str, num_threads: int, log: Path) -> Worker:
    """Start a worker process that trains.

    Args:
        program: Module that calls `serve_trainings`.
        num_threads: Number of CPU threads; 0 for PyTorch's default.
        log: File to which the process appends its output.

    Raises:
        StorageError: The log cannot be written.
    """
    environment = {key: value for key, value in os.environ.items() if key not in _RANK_VARIABLES}
    if num_threads:
        environment["OMP_NUM_THREADS"] = str(num_threads)
    with storage_errors(log):
        return Worker(program, str(num_threads), log=log, environment=environment)


def was_asked_to_end(worker: Worker) -> bool:
    """Return whether SIGTERM ended a worker, as a scheduler sends it to all processes of a job.

    The network has not failed then, even if this process has not received the signal yet.
    """
    return worker.exit_code() == -signal.SIGTERM


def serve_trainings(work: Callable[[dict[str, Any], Conversation], None]) -> NoReturn:
    """Serve jobs until the input ends, in a process that `start_worker` started.

    Args:
        work: Runs a job, given its message, and sends the result.
    """
    num_threads = int(sys.argv[1])
    if num_threads:
        torch.set_num_threads(num_threads)
    serve(work)
