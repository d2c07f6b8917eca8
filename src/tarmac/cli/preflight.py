"""Looks at the devices for a training or a job, and puts what was seen beside it."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

import click

from tarmac.checks import check_here, quick_check
from tarmac.errors import TarmacError
from tarmac.files import write_text
from tarmac.machine import NvmlProblem, open_nvml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tarmac.checks import Report
    from tarmac.runs import Run
    from tarmac.training import Plan, Reporter, Score


def check_into(run: Path, *, quiet: bool) -> None:
    """Do the quick check, say what failed, and store it in a run's directory."""
    _conclude(quick_check(), run, quiet=quiet)


@contextlib.contextmanager
def checking(reporter: Reporter, *, quiet: bool) -> Iterator[Checking]:
    """Yield a reporter that checks the devices of a training, for the time of that training.

    Args:
        reporter: Is told what the training tells.
        quiet: Do not say what failed.

    The process that trains computes on its devices just before the first step, when all that this
    needs is there already. Where processes of their own train, PyTorch computes in yet another one
    beside them; where a GPU lets one process alone in, after them.
    """
    checker = Checking(reporter, quiet=quiet)
    try:
        yield checker
        checker.finish()
    finally:
        checker.cancel()


class Checking:
    """Checks the devices of a training once it starts, says what failed and stores the report."""

    def __init__(self, reporter: Reporter, *, quiet: bool) -> None:
        self._quiet = quiet
        self._report: Report | None = None
        self._run: Path | None = None
        self._beside: threading.Thread | None = None
        self._stop = threading.Event()
        self.downloading = reporter.downloading
        self._started = reporter.started
        self.stepped: Callable[[int, int, Callable[[], Score]], None] = reporter.stepped
        self.epoch_done: Callable[[Mapping[str, float]], None] = reporter.epoch_done
        self.restarting = reporter.restarting

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        """All is checked but the devices, and the first step is next."""
        self._run = run.path
        is_rank = "WORLD_SIZE" in os.environ
        if is_rank or not plan.process_per_device:
            names = [device.torch_name for device in plan.devices]
            if is_rank:
                # The others are for the other ranks of this machine.
                names = [names[int(os.environ.get("LOCAL_RANK", "0"))]]
            self._keep(check_here([*dict.fromkeys(names)]))
        elif not _takes_one_process():
            self._beside = threading.Thread(target=self._look, daemon=True)
            self._beside.start()
        self._started(plan, run, num_parameters)

    def finish(self) -> None:
        """Wait for what is not known yet, unless it was cancelled."""
        if self._stop.is_set():
            return
        if self._beside is not None:
            self._beside.join()
        elif self._report is None and self._run is not None:
            self._look()

    def cancel(self) -> None:
        """End what is under way; nothing is where `finish` was called."""
        self._stop.set()
        if self._beside is not None:
            self._beside.join()

    def failure(self) -> TarmacError | None:
        """Return that a device computed wrongly, which no result of a training stands against."""
        wrong = (
            [f for f in self._report.findings if f.code == "wrong-result"] if self._report else []
        )
        if not wrong:
            return None
        return TarmacError(
            f"the check of the devices found wrong results: {wrong[0].evidence}",
            hint="Do not trust this run. See more: tarmac check",
        )

    def _look(self) -> None:
        report = quick_check(stop=self._stop)
        if not self._stop.is_set():
            self._keep(report)

    def _keep(self, report: Report) -> None:
        assert self._run is not None
        self._report = report
        _conclude(report, self._run, quiet=self._quiet)


def _takes_one_process() -> bool:
    """Whether a GPU here lets one process alone in."""
    with open_nvml() as nvml:
        gpus = () if isinstance(nvml, NvmlProblem) else nvml.read_gpus()
    return any(gpu.compute_mode == "exclusive process" for gpu in gpus)


def _conclude(report: Report, run: Path, *, quiet: bool) -> None:
    write_text(run / "check.json", report.model_dump_json(indent=2) + "\n")
    if quiet:
        return
    for finding in report.findings:
        if finding.level == "failure":
            where = ", ".join(finding.where)
            click.secho(f"check: {finding.title} ({where}). ", fg="yellow", nl=False)
            click.echo(f"What to do: tarmac check --explain {finding.code}")
