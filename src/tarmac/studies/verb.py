"""The verb: searches in a new study or an old one, and concludes it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from tarmac.errors import TarmacError
from tarmac.machine import find_devices
from tarmac.studies.conclusion import conclude
from tarmac.studies.confirm import NUM_SEEDS, confirm
from tarmac.studies.evaluation.choice import choose_evaluator
from tarmac.studies.evaluation.slots import slots_of
from tarmac.studies.loop import SearchLoop
from tarmac.studies.opening import open_study
from tarmac.studies.reporter import Reporter, Silent
from tarmac.studies.study.storage import loss_of_database
from tarmac.studies.winner import complete_trials
from tarmac.training import StopRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tarmac.studies.study.study import Study
    from tarmac.studies.study.writer import StudyWriter

__all__ = ["search", "work_on"]


def search(
    what: str | Path | None = None,
    *,
    output: str | Path | None = None,
    resume: str | Path | None = None,
    reporter: Reporter | None = None,
    **fields: Any,
) -> Study:
    """Search for a good network and return the study.

    Args:
        what: A workload, a study's file (``.yaml``), or a study that comes with Tarmac
            (``"mlp-evolve"``).
        output: The directory in which the study's own is made; by default
            `tarmac.runs.default_output`.
        resume: A study to go on with, instead: its directory, its name, or ``"latest"``.
        reporter: Receives progress; none by default.
        **fields: Of `tarmac.studies.Request`: ``method``, ``space``, ``generations`` and so on.

    Returns:
        The study, e.g. ``study.best.test_accuracy``. One that a signal stopped has
        ``study.record.status == "interrupted"``.

    Raises:
        RequestError: The request cannot be met; nothing was started.
        TarmacError: The search failed; what it had done so far is in its study.

    Example:
        >>> study = tarmac.search("digits-mlp", space={"hidden": [16, 32]}, generations=2)
    """
    study = open_study(what, output=output, resume=resume, **fields)
    return work_on(study, reporter or Silent())


def work_on(
    study: StudyWriter, reporter: Reporter, *, stop: Callable[[], bool] | None = None
) -> Study:
    """Search until the study is over, or a signal comes.

    Args:
        study: The study, opened by `open_study`.
        reporter: Receives progress.
        stop: Whether to stop; by default once SIGINT or SIGTERM has come.

    Raises:
        TarmacError: The search failed.
    """
    with StopRequest() as signals, study.leases.work() as owner:
        should_stop = stop or (lambda: bool(signals))
        study.update(status="running", ended_at=None, error=None)
        try:
            resume_command = f"tarmac search --resume {study.path}"
            with loss_of_database(study.record.storage, resume_command):
                _work(study, owner, reporter, should_stop)
        except BaseException as error:
            # A disk may be full now: what ended the search is what the user must hear of.
            with contextlib.suppress(TarmacError):
                if isinstance(error, KeyboardInterrupt):
                    study.end("interrupted")
                else:
                    study.end("failed", error=str(error) or type(error).__name__)
            raise
        finally:
            reporter.ended(study)
    return study


def _work(study: StudyWriter, owner: str, reporter: Reporter, stop: Callable[[], bool]) -> None:
    request = study.request
    devices = find_devices(str(request.devices))
    loop = SearchLoop(study, owner, reporter, stop)
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
        # Time that is over is not spent on this either.
        if why is not None and request.confirm and not loop.halted():
            study.ledger.refresh()
            reporter.noted(f"the best {request.confirm} are trained from {NUM_SEEDS} more seeds")
            if not confirm(study, complete_trials(study), chosen.evaluator, stop):
                why = None
    finally:
        chosen.close()
    # Alone, so on all threads of the device, as `tarmac train` makes the same network.
    slot = slots_of(devices, 1)[0]
    if why is None or not conclude(study, why, slot, reporter, stop):
        study.end("interrupted")
