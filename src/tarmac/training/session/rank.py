"""Training as one of several processes: a worker of Tarmac's own, or a process of torchrun."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from tarmac.errors import PeerFailed, TarmacError
from tarmac.ranks import FOUND_HUNG, LOST_PEERS
from tarmac.runs import Run
from tarmac.training.plan import Plan
from tarmac.training.processes.group import join, losses_told
from tarmac.training.processes.rendezvous import Rendezvous, find_launch
from tarmac.training.processes.store import RanksMissing, RankStore, open_store
from tarmac.training.processes.watchdog import OnHang
from tarmac.training.session.epochs import train_epochs
from tarmac.training.session.modes import denormals_flushed
from tarmac.training.session.record import Outcome, find_begun, plan_of, recorded
from tarmac.training.session.reporter import Reporter, Silent
from tarmac.training.session.request import TrainRequest
from tarmac.training.session.sampling import Sampler
from tarmac.training.session.stop_request import StopRequest
from tarmac.training.session.tracking import Tracking
from tarmac.wording import in_lines
from tarmac.workloads import Workload, find_workload

# Seconds for which the other ranks wait for the rank that reports a hang.
_REPORT_WAIT_S = 5.0


@denormals_flushed()
def train_as_worker(
    path: Path,
    rendezvous: Rendezvous,
    reporter: Reporter,
    on_hang: OnHang,
    stop: StopRequest,
) -> Outcome:
    """Train a run that the launcher holds, as one of its workers.

    Args:
        path: Directory of the run.
        rendezvous: Rank and world size of this worker.
        reporter: Receiver of progress reports, on the first rank.
        on_hang: Called when a rank hangs; see `join`.
        stop: Request to save the state and stop.

    Raises:
        PeerFailed: Another worker is lost.
        TarmacError: This worker failed.
    """
    run = Run.open(path)
    workload = find_workload(str(run.record.configuration["workload"]))
    plan = plan_of(run, workload, rendezvous=rendezvous)
    _take_threads(plan, rendezvous)
    limit_s = plan.hang_timeout_s
    store = open_store(rendezvous, limit_s, limit_s)
    device = plan.devices[rendezvous.local_rank]
    with (
        _missing_ranks_as_hung(on_hang),
        join(store, device, hang_timeout_s=limit_s, on_hang=on_hang) as team,
        losses_told(rendezvous.rank),
    ):
        return train_epochs(plan, run, team, reporter, stop)


def train_as_rank(
    request: TrainRequest,
    prepare: Callable[[], tuple[Workload, Plan]],
    make_run: Callable[[Workload, Plan], Run],
    *,
    begun: Callable[[Run], None],
) -> Run:
    """Train as one of the processes that another launcher has started.

    The first process creates, holds and records the run. One process raises an error as itself, and
    the others raise `PeerFailed`. If the launcher has restarted all processes, they resume the run
    that they had created.

    Args:
        request: Options beside the plan; its ``rendezvous`` must be set.
        prepare: Function that finds the workload, before options change it, and makes the plan.
        make_run: Function that creates the run of a plan, or finds the run to resume.
        begun: Called with the run, on the first rank.

    Returns:
        The run, which all processes can read if they share its directory.
    """
    rendezvous = request.rendezvous
    assert rendezvous is not None
    store = open_store(rendezvous)
    with contextlib.ExitStack() as joined:
        joined.enter_context(_missing_ranks_as_hung(_report_hang))
        with _on_all_ranks(store):
            workload, made = prepare()
        _take_threads(made, rendezvous)
        device = made.devices[rendezvous.local_rank]
        limit_s = made.hang_timeout_s
        team = joined.enter_context(
            join(store, device, hang_timeout_s=limit_s, on_hang=_report_hang)
        )
        # Each rank has measured for itself, but all ranks must compute alike.
        here = platform.node()
        reports = team.all_gather((made.precision, made.reasons["precision"], here, device.uuid))
        precision, why, *_ = reports[0]
        reasons = {**made.reasons, "precision": why}
        made = dataclasses.replace(made, precision=precision, reasons=reasons)
        with _on_all_ranks(store):
            goes_on = rendezvous.num_restarts or find_launch(os.environ)
            run = find_begun(rendezvous.launch, request.output) if goes_on else None
            run = run or (make_run(workload, made) if team.is_main else None)
        uuids = {uuid for *_, host, uuid in reports if host == here and uuid is not None}
        path, record = team.all_gather((run.path, run.record) if run is not None else None)[0]
        run = Run(path, record)
        if record.status == "completed":
            if team.is_main:
                begun(run)
            return run
        is_first_here = team.local_rank == 0
        sampler = Sampler(run, uuids, is_on=made.sampling and is_first_here, rank=team.rank)
        tracking = Tracking(request.reporter, sampler)
        with contextlib.ExitStack() as held:
            with _on_all_ranks(store):
                conclude = None
                if team.is_main:
                    work = recorded(
                        run,
                        made,
                        workload,
                        sampler=sampler,
                        tracking=tracking,
                        uri=request.uri,
                        launch=rendezvous.launch if goes_on else "",
                    )
                    conclude = held.enter_context(work)
                    # Damaged checkpoints are set aside by now, and no other process holds the run.
                    begun(run)
            if not team.is_main:
                held.enter_context(sampler)
            stop_request = held.enter_context(StopRequest(request.interrupted))
            held.enter_context(_one_rank_reports(store))
            heard = tracking if team.is_main else Silent()
            with losses_told(rendezvous.rank):
                outcome = train_epochs(made, run, team, heard, stop_request, stop=request.stop)
            if conclude is not None:
                conclude(outcome)
        return Run(path, team.all_gather(run.record)[0])


def _take_threads(plan: Plan, rendezvous: Rendezvous) -> None:
    """Use this process's share of the cores, unless the user set another number."""
    # torchrun sets 1 by default, so 1 does not mean that the user chose it.
    if os.environ.get("OMP_NUM_THREADS", "1") == "1":
        threads = plan.devices[rendezvous.local_rank].num_threads
        if threads:
            torch.set_num_threads(threads)


@contextlib.contextmanager
def _on_all_ranks(store: RankStore) -> Iterator[None]:
    """Run the context on all ranks; if ranks fail, the lowest of them raises its error.

    All other ranks raise `PeerFailed` with the same message.
    """
    error: Exception | None = None
    try:
        yield
    except Exception as caught:
        error = caught
    texts = store.all_gather("" if error is None else str(error) or type(error).__name__)
    failed = [rank for rank, text in enumerate(texts) if text]
    if not failed:
        return
    if failed[0] == store.rank:
        assert error is not None
        raise error
    raise PeerFailed(texts[failed[0]])


@contextlib.contextmanager
def _missing_ranks_as_hung(on_hang: OnHang) -> Iterator[None]:
    """Treat a rank that is missing from a gather as hung."""
    try:
        yield
    except RanksMissing as absent:
        on_hang(absent.message, absent.ranks, absent.reports)
        raise


@contextlib.contextmanager
def _one_rank_reports(store: RankStore) -> Iterator[None]:
    """Prefix an error with its rank; of several errors, only the first published is raised.

    The other ranks raise `PeerFailed` with the same message, so that rank 0 can record it.
    """
    try:
        yield
    except PeerFailed as error:
        raise PeerFailed(store.published_error() or error.message) from error
    except Exception as error:
        ours = error.message if isinstance(error, TarmacError) else None
        words = ours or f"{type(error).__name__}: {error}"
        message = f"rank {store.rank}: {words}"
        if not store.publish_error(message):
            raise PeerFailed(store.published_error() or message) from error
        if isinstance(error, TarmacError):
            raise
        raise TarmacError(message, hint="Add --debug for the whole traceback.") from error


def _report_hang(message: str, _hung: Sequence[int], reports: bool) -> None:
    """End this process, whose main thread would wait forever; one rank prints the reason."""
    if reports:
        sys.stderr.write(f"error: {in_lines(message)}\n")
        sys.stderr.flush()
        os._exit(FOUND_HUNG)
    time.sleep(_REPORT_WAIT_S)
    os._exit(LOST_PEERS)
