"""The search itself: run a new or resumed study, and conclude it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

from tarmac.errors import TarmacError, quoted, reason_of
from tarmac.machine import find_devices
from tarmac.studies.cluster.session import search_on
from tarmac.studies.cluster.workers import Workers
from tarmac.studies.conclusion import WinnersProcess, conclude, concluding
from tarmac.studies.confirm import confirm
from tarmac.studies.errors import AllTrialsFailedError
from tarmac.studies.evaluation.choice import choose_evaluator
from tarmac.studies.evaluation.slots import slots_of
from tarmac.studies.loop import SearchLoop
from tarmac.studies.opening import open_study
from tarmac.studies.reporter import Reporter, Silent
from tarmac.studies.request import SearchOptions
from tarmac.studies.study.storage import loss_of_database
from tarmac.studies.study.study import Study
from tarmac.studies.study.writer import StudyWriter
from tarmac.studies.terms import ALONE, Leave, Terms
from tarmac.studies.tracking import check_trackers, tracked
from tarmac.studies.winner import NUM_SEEDS
from tarmac.training import StopRequest


def search(
    what: str | Path | None = None,
    *,
    output: str | Path | None = None,
    resume: str | Path | None = None,
    reporter: Reporter | None = None,
    cluster: Workers | None = None,
    log_to: Sequence[str] = (),
    **fields: Unpack[SearchOptions],
) -> Study:
    """Search for a good network and return the study.

    Args:
        what: A workload, a study file (``.yaml``), or a built-in study (``"mlp-evolve"``).
        output: Directory in which the study's directory is created. Default:
            `tarmac.runs.default_output`.
        resume: Study to resume instead: its directory, its name, or ``"latest"``.
        reporter: Reporter that receives the progress. Default: none.
        cluster: Cluster workers that search instead of this process, such as
            ``tarmac.studies.Workers(on="slurm", count=16)``. The call returns once the search is
            over.
        log_to: Trackers that log every network: ``wandb``, ``mlflow``.
        **fields: Fields of `tarmac.studies.Request`: ``method``, ``space``, ``generations`` and so
            on.

    Returns:
        The study, e.g. ``study.best.test_accuracy``. A study that a signal stopped has
        ``study.record.status == "interrupted"``.

    Raises:
        RequestError: The request cannot be met; nothing was started.
        TarmacError: The search failed; its results so far are in the study.

    Example:
        >>> study = tarmac.search("digits-mlp", space={"hidden": [16, 32]}, generations=2)
    """
    check_trackers(log_to)
    study = open_study(what, output=output, resume=resume, is_shared=cluster is not None, **fields)
    with tracked(study, reporter or Silent(), log_to) as tracked_reporter:
        if cluster is None:
            return work_on(study, tracked_reporter)
        search_on(study, cluster, tracked_reporter, storage=fields.get("storage"))
    return study


def work_on(
    study: StudyWriter, reporter: Reporter, *, stop: Callable[[], bool] | None = None
) -> Study:
    """Search until the study is over, or a signal arrives.

    Args:
        study: The study, opened by `open_study`.
        reporter: Reporter that receives the search's progress.
        stop: Returns whether to stop. Default: after SIGINT or SIGTERM.

    Raises:
        TarmacError: The search failed.
    """
    with StopRequest() as signals, study.leases.work() as owner:
        should_stop = stop or (lambda: bool(signals))
        study.update(status="running", ended_at=None, error=None)
        try:
            resume_command = f"tarmac search --resume {quoted(study.path)}"
            with loss_of_database(study.record.storage, resume_command):
                if _work(study, owner, reporter, should_stop, ALONE) != "concluded":
                    study.end("interrupted")
        except BaseException as error:
            # Recording the end may fail too, e.g. on a full disk: show the user the first error.
            with contextlib.suppress(TarmacError):
                if isinstance(error, KeyboardInterrupt):
                    study.end("interrupted")
                else:
                    study.end("failed", error=reason_of(error))
            raise
        finally:
            reporter.ended(study)
    return study


def run_worker(
    study: StudyWriter,
    reporter: Reporter,
    terms: Terms,
    *,
    stop: Callable[[], bool] | None = None,
) -> Leave:
    """Work on a study as one of several workers, until no trials are left.

    The worker that finishes the last trial concludes the study. A worker that stops or fails does
    not mark the study as interrupted or failed, because the other workers go on.

    Args:
        study: The study, opened by `open_study`.
        reporter: Reporter that receives this worker's progress.
        terms: Share of the trials to take, and time limit.
        stop: Returns whether to stop. Default: after SIGINT or SIGTERM.

    Returns:
        Reason for leaving the study.

    Raises:
        AllTrialsFailedError: None of the first networks could be trained; the study has failed.
        TarmacError: This worker failed.
    """
    if study.record.status == "completed":
        return "concluded"
    with StopRequest() as signals, study.leases.work() as owner:
        try:
            with loss_of_database(
                study.record.storage, f"tarmac search --resume {quoted(study.path)}"
            ):
                return _work(study, owner, reporter, stop or (lambda: bool(signals)), terms)
        except AllTrialsFailedError as error:
            study.end("failed", error=error.message)
            raise
        finally:
            reporter.ended(study)


def _work(
    study: StudyWriter,
    owner: str,
    reporter: Reporter,
    stop: Callable[[], bool],
    terms: Terms,
) -> Leave:
    request = study.request
    devices = find_devices(str(request.devices))
    # The winner trains alone, so on all threads, as in `tarmac train`.
    winners_process = WinnersProcess(study, slots_of(devices, 1)[0])
    start_early = winners_process.start if terms is ALONE else None
    loop = SearchLoop(study, owner, reporter, stop, terms, when_all_claimed=start_early)
    chosen = choose_evaluator(study, devices, loop.halted)
    study.ledger.refresh()
    reporter.began(study, chosen.summary)
    if (study.record.storage or "").startswith("sqlite"):
        reporter.noted(
            "SQLite is slow and may fail where several processes write; without --storage the "
            "study is a journal, which is made for that"
        )
    try:
        why = loop.run(chosen)
        leave = loop.leave if why is None else "concluded" if loop.fits_another else "time"
        # A worker that only waited for others may get trials in its next turn.
        is_futile = not loop.num_epochs and not loop.has_waited
        if leave == "time" and is_futile:
            raise TarmacError(
                f"a network takes about {loop.needed_s:.0f} s, and this worker had "
                f"{max(0.0, terms.time_left_s()):.0f} s left when it started",
                hint="Give each worker more time: --time-per-worker",
            )
        if leave == "stopped" and terms.leaves_the_rest and is_futile:
            # A replacement for this worker would get no further.
            raise TarmacError(
                "this worker was ended before it had trained an epoch",
                hint="Give each worker more time: --time-per-worker",
            )
        if why is None or leave == "time":
            return leave
        with concluding(study, stop, waits=not terms.leaves_the_rest) as is_ours:
            if not is_ours:
                return "others" if terms.leaves_the_rest else "stopped"
            # The time budget limits the confirmation too.
            if request.confirm and not loop.halted():
                reporter.noted(
                    f"the best {request.confirm} are trained from {NUM_SEEDS} more seeds"
                )
                confirmed = confirm(study, chosen.evaluator, stop)
                if confirmed is None:
                    return "stopped"
                study.update(confirmed=confirmed)
            chosen.close()
            is_done = conclude(study, why, winners_process, reporter, stop)
            return "concluded" if is_done else "stopped"
    finally:
        chosen.close()
        winners_process.close()
