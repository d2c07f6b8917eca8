"""Start the workers of `ddp` by PyTorch's elastic agent, and restart them if one is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.files import masked_end, scratch_directory
from tarmac.processes import last_line, python_command
from tarmac.ranks import LOST_PEERS
from tarmac.training.processes.link import Failure, listen

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing import LogsDest

_SOCKET = "link"

# unix(7): 108 bytes, of which the last is zero. BSDs allow four less.
_MAX_BYTES_OF_SOCKET = 103

# Seconds for which workers may save their state together after a signal.
_SHUTDOWN_S = 60

# Seconds until the other workers are killed after one is lost. The agent finds the loss within a
# tenth of a second, and workers that notice it end by themselves.
_AFTERLIFE_S = 5.0

_LOOK_EVERY_S = 0.1

_LOG_TAIL_BYTES = 4096


def launch(
    module: str,
    run: Path,
    num_workers: int,
    *,
    max_restarts: int,
    receive: Callable[[str, dict[str, Any]], None],
    restarting: Callable[[str], None],
    interrupted: Callable[[], bool] | None = None,
) -> None:
    """Run a run's workers until they end.

    If a worker is lost (killed, crashed, hung), all workers restart from the newest checkpoint. If
    a worker fails with an error of its own, the training ends, as the error would occur again.

    Args:
        module: Module that each worker runs, for ``python -m``; its arguments are the run's
            directory and the address of a socket for reports.
        run: Directory of the run.
        num_workers: Number of worker processes, a worker per device.
        max_restarts: Most times to restart the workers, 0 or more.
        receive: Called with each event of rank 0 and its values, in a thread of its own.
        restarting: Called with the reason before each restart of the workers.
        interrupted: Polled several times a second, in a thread of its own. If true, the workers
            save their state and end, as on a signal to this process.

    Raises:
        RequestError: A worker reports that the request is invalid.
        TarmacError: A worker failed, or workers were lost more than ``max_restarts`` times.
    """
    for attempt in range(max_restarts + 1):
        with _Inbox(receive, interrupted) as inbox:
            lost = _attempt(module, run, num_workers, attempt, inbox.take)
        failures = inbox.failures
        own = [failure for failure in failures if failure.kind != "hang"]
        if own:
            raise _error(own[0], run, attempt)
        if lost is None:
            return
        if failures:
            lost = failures[0].message
        if attempt == max_restarts:
            again = f" {attempt + 1} times" if attempt else ""
            raise TarmacError(
                f"the training lost a worker{again}: {lost}",
                hint=f"Resume from the newest checkpoint: tarmac train --resume {quoted(run)}\n"
                f"Logs of the workers: {run / 'logs'}",
            )
        restarting(
            f"{lost}; all start again from the newest checkpoint "
            f"({attempt + 1} of at most {max_restarts} times)"
        )


class _Inbox:
    """A receiver of the workers' events: it handles their ends, and ``receive`` gets the rest.

    It kills a worker that hangs. After the loss of a worker it also kills the others: they may wait
    for the lost worker on a GPU, where no signal reaches them. The agent would only ask them to
    end, and wait half a minute.
    """

    def __init__(
        self,
        receive: Callable[[str, dict[str, Any]], None],
        interrupted: Callable[[], bool] | None,
    ) -> None:
        self._receive = receive
        self._interrupted = interrupted
        self._over = threading.Event()
        self._pids: dict[int, int] = {}
        self._done = set[int]()
        self._end_of_all: threading.Timer | None = None
        self.failures: list[Failure] = []

    def __enter__(self) -> _Inbox:
        if self._interrupted is not None:
            threading.Thread(target=self._watch, args=[self._interrupted], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._end_of_all is not None:
            self._end_of_all.cancel()

    def take(self, event: dict[str, Any]) -> None:
        match event.pop("event"):
            case "connected":
                self._pids[event["rank"]] = event["pid"]
            case "failure":
                failure = Failure(**event)
                self.failures.append(failure)
                self._kill(failure.hung)
            case "done":
                self._done.add(event["rank"])
            case "closed":
                del self._pids[event["rank"]]
                if event["rank"] not in self._done and self._end_of_all is None:
                    self._end_of_all = threading.Timer(_AFTERLIFE_S, self._kill, [self._pids])
                    self._end_of_all.daemon = True
                    self._end_of_all.start()
            case name:
                self._receive(name, event)

    def _watch(self, interrupted: Callable[[], bool]) -> None:
        """Send each worker one signal to save its state and end, once ``interrupted`` is true."""
        signalled_ranks = set[int]()
        while not self._over.wait(_LOOK_EVERY_S):
            if interrupted():
                ranks = self._pids.keys() - signalled_ranks
                self._signal(ranks, signal.SIGTERM)
                signalled_ranks |= ranks

    def _kill(self, ranks: Iterable[int]) -> None:
        self._signal(ranks, signal.SIGKILL)

    def _signal(self, ranks: Iterable[int], number: signal.Signals) -> None:
        for rank in tuple(ranks):
            pid = self._pids.get(rank)
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)


def _attempt(
    module: str,
    run: Path,
    num_workers: int,
    attempt: int,
    receive: Callable[[dict[str, Any]], None],
) -> str | None:
    """Start the workers once; return how a worker was lost, or None if none was lost."""
    from torch.distributed.elastic.multiprocessing import SignalException  # noqa: PLC0415 - slow
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: PLC0415
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch  # noqa: PLC0415

    # PyTorch 2.11 lacks this field, and gives workers half a minute.
    known = {field.name for field in dataclasses.fields(LaunchConfig)}
    patience: dict[str, Any] = {"shutdown_timeout": _SHUTDOWN_S}
    with scratch_directory(_directory_of_sockets()) as directory:
        address = directory / _SOCKET
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=num_workers,
            run_id=f"tarmac-{run.name}-{attempt}",
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
            local_addr="localhost",
            **(patience if patience.keys() <= known else {}),
            logs_specs=_logs(run / "logs", directory / "agent", attempt),
        )
        python, *options = python_command(module, str(run), str(address))
        with listen(address, receive), _quiet_agent(), _same_signals():
            try:
                elastic_launch(config, python)(*options)
            except ChildFailedError as error:
                return _describe(error.failures, run / "logs", attempt)
            except SignalException:
                # The workers have saved their state and recorded the interruption.
                return None
            finally:
                _drop_empty(run / "logs")
    return None


def _directory_of_sockets() -> str | None:
    """Return a directory in which a socket's path is short enough; None for the default."""
    name = "tarmac.01234567-0123456-0123456789-01234567.scratch"
    path = Path(tempfile.gettempdir()) / name / _SOCKET
    return None if len(os.fsencode(path)) <= _MAX_BYTES_OF_SOCKET else "/tmp"  # noqa: S108 - mkdtemp


def _describe(failures: dict[int, Any], logs: Path, attempt: int) -> str:
    """Describe how the first lost worker ended; workers that only lost their peers come last."""

    def is_cause(item: tuple[int, Any]) -> tuple[bool, bool, int]:
        rank, failure = item
        return failure.exitcode == LOST_PEERS, failure.exitcode >= 0, rank

    rank, failure = min(failures.items(), key=is_cause)
    if failure.exitcode < 0:
        return f"rank {rank} was killed by {signal.Signals(-failure.exitcode).name}"
    error = ""
    with contextlib.suppress(OSError):
        printed, _ = masked_end(logs / _log_name(rank, attempt, "err"), _LOG_TAIL_BYTES)
        error = last_line(printed)
    return f"rank {rank} ended with exit code {failure.exitcode}" + (f": {error}" if error else "")


def _error(failure: Failure, run: Path, attempt: int) -> TarmacError:
    if failure.kind == "request":
        return RequestError(failure.message, hint=failure.hint)
    if failure.kind == "failed":
        return TarmacError(failure.message, hint=failure.hint)
    log = run / "logs" / _log_name(failure.rank, attempt, "err")
    return TarmacError(f"rank {failure.rank}: {failure.message}", hint=f"Its traceback is in {log}")


def _logs(directory: Path, agents: Path, attempt: int) -> Any:
    """Return the agent's log settings, with a file per worker and stream in ``directory``."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs  # noqa: PLC0415 - slow

    class Logs(DefaultLogsSpecs):
        def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
            directory.mkdir(exist_ok=True)
            there = super().reify(envs)
            there.stdouts = {r: str(directory / _log_name(r, attempt, "out")) for r in envs}
            there.stderrs = {r: str(directory / _log_name(r, attempt, "err")) for r in envs}
            return there

    return Logs(log_dir=str(agents))


def _log_name(rank: int, attempt: int, stream: str) -> str:
    return f"rank-{rank}{f'.restart-{attempt}' if attempt else ''}.{stream}"


def _drop_empty(directory: Path) -> None:
    for log in directory.glob("rank-*"):
        with contextlib.suppress(OSError):
            if log.stat().st_size == 0:
                log.unlink()


@contextlib.contextmanager
def _quiet_agent() -> Iterator[None]:
    """Silence the agent's own messages, as errors contain their content."""
    logger = logging.getLogger("torch.distributed.elastic")
    nowhere, propagate = logging.NullHandler(), logger.propagate
    logger.addHandler(nowhere)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(nowhere)
        logger.propagate = propagate


@contextlib.contextmanager
def _same_signals() -> Iterator[None]:
    """Restore the signal handlers and the variable that the agent replaces."""
    names = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
    before = {name: signal.getsignal(name) for name in names}
    variable = os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE")
    try:
        yield
    finally:
        if variable is None:
            os.environ.pop("TORCHELASTIC_SIGNALS_TO_HANDLE", None)
        else:
            os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = variable
        if threading.current_thread() is threading.main_thread():
            for name, handler in before.items():
                signal.signal(name, handler)
