"""Trains as one of several processes: a worker of ours, or one that torchrun has started."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from tarmac import runs
from tarmac.errors import PeerFailed, TarmacError
from tarmac.runs import Run
from tarmac.training.processes.group import join
from tarmac.training.processes.store import Absent, meet
from tarmac.training.session.epochs import train_epochs
from tarmac.training.session.modes import denormals_flushed
from tarmac.training.session.record import Outcome, plan_of, recorded
from tarmac.training.session.reporter import Reporter, Silent
from tarmac.training.session.stop_request import StopRequest
from tarmac.workloads import find_workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tarmac.training.plan import Plan
    from tarmac.training.processes.rendezvous import Rendezvous
    from tarmac.training.processes.store import Board
    from tarmac.training.processes.watchdog import OnHang
    from tarmac.training.session.epochs import EpochHook
    from tarmac.workloads import Workload

__all__ = ["as_rank", "work_as_rank"]

# So long the ranks that are not to speak leave the word to the one that is.
_SILENCE_S = 5.0


@denormals_flushed()
def work_as_rank(
    path: Path,
    rendezvous: Rendezvous,
    reporter: Reporter,
    on_hang: OnHang,
    stop: StopRequest,
) -> Outcome:
    """Work on a run that the launcher holds, as one of its workers.

    Args:
        path: The run's directory.
        rendezvous: Which worker this is.
        reporter: Is told how it goes, on the first rank.
        on_hang: See `join`.
        stop: Whether to save the state and stop.

    Raises:
        PeerFailed: Another worker is lost.
        TarmacError: This one failed.
    """
    run = Run.open(path)
    workload = find_workload(str(run.record.configuration["workload"]))
    plan = plan_of(run, workload, rendezvous=rendezvous)
    _take_threads(plan, rendezvous)
    limit_s = plan.hang_timeout_s
    board = meet(rendezvous, limit_s, limit_s)
    device = plan.devices[rendezvous.local_rank]
    with (
        _absence_told(on_hang),
        join(board, device, hang_timeout_s=limit_s, on_hang=on_hang) as team,
    ):
        return train_epochs(plan, run, team, reporter, lambda: bool(stop))


def as_rank(
    rendezvous: Rendezvous,
    prepare: Callable[[], tuple[Workload, Plan]],
    make_run: Callable[[Workload, Plan], Run],
    *,
    output: str | Path | None,
    uri: str | None,
    begun: Callable[[Run], None],
    reporter: Reporter,
    stop: EpochHook | None = None,
) -> Run:
    """Train as one of the processes that another launcher has started.

    The first makes the run, holds and records it; an error is raised as itself by one process, and
    as `PeerFailed` by the others. Where the launcher has started all processes again, they go on
    with the run that they had made.

    Args:
        rendezvous: Which process this is.
        prepare: Finds the workload, as it is before options change it, and makes the plan.
        make_run: Makes the run of a plan, or finds the one to resume.
        output: Where runs are made; by default `runs.default_output`.
        uri: Below which the run's copy goes; see `recorded`.
        begun: Is given the run, on the first rank.
        reporter: Is told how it goes, on the first rank.
        stop: See `tarmac.training.train`.

    Returns:
        The run, which all processes see where they share its directory.
    """
    board = meet(rendezvous)
    with contextlib.ExitStack() as joined:
        joined.enter_context(_absence_told(_report_hang))
        with _together(board):
            workload, made = prepare()
        _take_threads(made, rendezvous)
        device = made.devices[rendezvous.local_rank]
        limit_s = made.hang_timeout_s
        team = joined.enter_context(
            join(board, device, hang_timeout_s=limit_s, on_hang=_report_hang)
        )
        # Each has measured for itself, and all must compute alike.
        precision, why = team.gather((made.precision, made.reasons["precision"]))[0]
        reasons = {**made.reasons, "precision": why}
        made = dataclasses.replace(made, precision=precision, reasons=reasons)
        with _together(board):
            run = _find_again(rendezvous, output) if rendezvous.num_restarts else None
            run = run or (make_run(workload, made) if team.is_main else None)
        path, record = team.gather((run.path, run.record) if run is not None else None)[0]
        run = Run(path, record)
        if team.is_main:
            begun(run)
        if record.status == "completed":
            return run
        with contextlib.ExitStack() as held:
            with _together(board):
                conclude = (
                    held.enter_context(recorded(run, made, workload, uri=uri))
                    if team.is_main
                    else None
                )
            signalled = held.enter_context(StopRequest())
            held.enter_context(_one_voice(board))
            speaks = reporter if team.is_main else Silent()
            outcome = train_epochs(made, run, team, speaks, lambda: bool(signalled), stop=stop)
            if conclude is not None:
                conclude(outcome)
        return Run(path, team.gather(run.record)[0])


def _take_threads(plan: Plan, rendezvous: Rendezvous) -> None:
    """Use this process's share of the cores, unless the user set another number."""
    # torchrun sets 1 by itself, to be safe.
    if os.environ.get("OMP_NUM_THREADS", "1") == "1":
        threads = plan.devices[rendezvous.local_rank].num_threads
        if threads:
            torch.set_num_threads(threads)


def _find_again(rendezvous: Rendezvous, output: str | Path | None) -> Run | None:
    """Find the run that this launch made before all its processes were started again."""
    found, _ = runs.list_runs(Path(output) if output is not None else None)
    return next((run for run in found if run.record.launch == rendezvous.launch != ""), None)


@contextlib.contextmanager
def _together(board: Board) -> Iterator[None]:
    """Do something on all ranks; where it fails on some, only the first of these raises why."""
    error: Exception | None = None
    try:
        yield
    except Exception as caught:
        error = caught
    texts = board.exchange("" if error is None else str(error) or type(error).__name__)
    failed = [rank for rank, text in enumerate(texts) if text]
    if not failed:
        return
    if failed[0] == board.rank:
        assert error is not None
        raise error
    raise PeerFailed(texts[failed[0]])


@contextlib.contextmanager
def _absence_told(on_hang: OnHang) -> Iterator[None]:
    """Treat a rank that does not come to an exchange as one that hangs."""
    try:
        yield
    except Absent as absent:
        on_hang(absent.message, absent.ranks, absent.speaks)
        raise


@contextlib.contextmanager
def _one_voice(board: Board) -> Iterator[None]:
    """Let an error say which rank it is from, the first alone where several fail at once.

    The first rank hears of it, and records it.
    """
    try:
        yield
    except PeerFailed as error:
        raise PeerFailed(board.last_words() or error.message) from error
    except Exception as error:
        ours = error.message if isinstance(error, TarmacError) else None
        words = ours or f"{type(error).__name__}: {error}"
        message = f"rank {board.rank}: {words}"
        if not board.leave_words(message):
            raise PeerFailed(board.last_words() or message) from error
        if isinstance(error, TarmacError):
            raise
        raise TarmacError(message, hint="Add --debug for the whole traceback.") from error


def _report_hang(message: str, _hung: Sequence[int], speaks: bool) -> None:
    """End this process, whose main thread waits for ever; one rank says why."""
    if speaks:
        sys.stderr.write(f"error: {message}\n")
        sys.stderr.flush()
    else:
        time.sleep(_SILENCE_S)
    os._exit(1)
