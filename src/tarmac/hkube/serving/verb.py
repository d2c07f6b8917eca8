"""Serving of a Tarmac workload as an HKube algorithm, until its worker sends ``exit``."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager

from tarmac import runs
from tarmac.errors import RequestError, unknown_name
from tarmac.files import without_password
from tarmac.hkube.protocol import ENCODINGS, Encoding, worker_url
from tarmac.hkube.serving import gpu_example
from tarmac.hkube.serving.devices import read_asked
from tarmac.hkube.serving.loop import Loop
from tarmac.hkube.serving.request import Defaults, read_settings
from tarmac.hkube.serving.training import ServedWorkload
from tarmac.training import Reporter, StopRequest
from tarmac.workloads import find_workload


def serve(
    workload: str | None = None,
    *,
    worker_timeout_s: float = 300.0,
    reporting: Callable[[], AbstractContextManager[Reporter]],
    say: Callable[[str], None],
) -> int:
    """Serve a workload as an HKube algorithm, until the worker sends ``exit``.

    Environment variables set the worker's address (``WORKER_SOCKET_URL``, or
    ``WORKER_SOCKET_PROTOCOL``, ``_HOST`` and ``_PORT``), the encoding of messages
    (``WORKER_ALGORITHM_ENCODING``), and options and settings that override the workload's defaults
    (``TARMAC_SETTINGS``).

    Args:
        workload: Name of a workload, or ``path/to/file.py:attribute``. Default: HKube's GPU
            example.
        worker_timeout_s: Seconds to wait for a worker, at first and after each loss. Above 0,
            default 300.
        reporting: Function that opens a reporter for a training.
        say: Function that writes a line to the log.

    Returns:
        The exit code that the worker asks for.

    Raises:
        RequestError: The workload does not exist, or a variable or the timeout is invalid.
        Interrupted: A signal arrived; a running task was stopped first.
        TarmacError: No worker was connected for too long.
    """
    if not worker_timeout_s > 0:
        raise RequestError(f"worker_timeout_s is {worker_timeout_s:g}, expected seconds above 0")
    environment = os.environ
    settings = read_settings(environment.get("TARMAC_SETTINGS", ""), "TARMAC_SETTINGS")
    loaded = gpu_example.workload if workload is None else find_workload(workload)
    if workload is None:
        values = {"train_size": gpu_example.TRAIN_SIZE, **settings}
        defaults = Defaults(output=gpu_example.OUTPUT, values=values)
    else:
        defaults = Defaults(output=str(runs.default_output()), values=settings)
    served = ServedWorkload(
        loaded,
        loaded if workload is None else workload,
        defaults,
        environment=environment,
        reporting=reporting,
        say=say,
        begin_with=gpu_example.OPTIONS if workload is None else None,
    )
    # Fail now: an invalid environment would fail every task.
    served.read({})
    read_asked(environment)
    say(f"{loaded.name} is served to the worker at {without_password(worker_url(environment))}")
    with StopRequest() as asks_to_end:
        loop = Loop(
            served,
            worker_url(environment),
            _encoding(environment.get("WORKER_ALGORITHM_ENCODING") or "json"),
            limit_s=worker_timeout_s,
            environment=environment,
            asks_to_end=asks_to_end,
            say=say,
        )
        return loop.run()


def _encoding(name: str) -> Encoding:
    for known in ENCODINGS:
        if name == known:
            return known
    raise unknown_name("WORKER_ALGORITHM_ENCODING", name, dict.fromkeys(ENCODINGS, ""))
