"""A check of the devices for a training or a job, with its report in the run's directory."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tarmac.checks import Report, check_here, quick_check
from tarmac.errors import TarmacError
from tarmac.files import write_text
from tarmac.machine import has_exclusive_gpu, open_nvml

if TYPE_CHECKING:
    from tarmac.runs import Run
    from tarmac.training import Plan, Reporter, Score


def check_into(run: Path, *, own_python: bool, quiet: bool) -> None:
    """Do the quick check, print failures, and store the report in a run's directory.

    Args:
        run: Directory of the run.
        own_python: Whether a task runs in Tarmac's own environment, whose frameworks then matter.
        quiet: Whether to suppress messages about failures.
    """
    _conclude(quick_check(), run, quiet=quiet, own_python=own_python)


@contextlib.contextmanager
def checking(reporter: Reporter, *, quiet: bool) -> Iterator[Checking]:
    """Yield a reporter that checks the devices of a training while that training runs.

    A process that trains checks its own devices just before the first step, when they are ready
    for PyTorch. If processes of their own train, PyTorch checks in another process meanwhile, or
    afterwards if a GPU allows one process only.

    Args:
        reporter: Reporter that receives the events of the training.
        quiet: Whether to suppress messages about failures.
    """
    checker = Checking(reporter, quiet=quiet)
    try:
        yield checker
        checker.finish()
    finally:
        checker.cancel()


class Checking:
    """A reporter that checks a training's devices at its start, and stores the report."""

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
        """Check the devices before the first step, or start a check during the training."""
        self._run = run.path
        is_rank = "WORLD_SIZE" in os.environ
        if is_rank or not plan.process_per_device:
            names = [device.torch_name for device in plan.devices]
            if is_rank:
                # The other devices belong to the other ranks of this machine.
                names = [names[int(os.environ.get("LOCAL_RANK", "0"))]]
            self._keep(check_here([*dict.fromkeys(names)]))
        else:
            with open_nvml() as nvml:
                is_exclusive = has_exclusive_gpu(nvml)
            if not is_exclusive:
                self._beside = threading.Thread(target=self._look, daemon=True)
                self._beside.start()
        self._started(plan, run, num_parameters)

    def finish(self) -> None:
        """Complete the check, unless it was cancelled."""
        if self._stop.is_set():
            return
        if self._beside is not None:
            self._beside.join()
        elif self._report is None and self._run is not None:
            self._look()

    def cancel(self) -> None:
        """Stop a check in progress; after `finish` there is none."""
        self._stop.set()
        if self._beside is not None:
            self._beside.join()

    def failure(self) -> TarmacError | None:
        """Return the error if a device computed wrongly, for no result is valid then."""
        wrong = (
            [f for f in self._report.findings if f.code == "wrong-result"] if self._report else []
        )
        if not wrong:
            return None
        return TarmacError(
            f"the check of the devices found wrong results: {wrong[0].evidence}",
            hint="Do not trust this run. Find the cause: tarmac check",
        )

    def _look(self) -> None:
        report = quick_check(stop=self._stop)
        if not self._stop.is_set():
            self._keep(report)

    def _keep(self, report: Report) -> None:
        assert self._run is not None
        self._report = report
        _conclude(report, self._run, quiet=self._quiet)


def _conclude(report: Report, run: Path, *, quiet: bool, own_python: bool = True) -> None:
    write_text(run / "check.json", report.model_dump_json(indent=2) + "\n")
    if quiet:
        return
    # A framework that works on no device is Tarmac's own, and no task uses it.
    apart = set() if own_python else {probe.label for probe in report.probes}
    for finding in report.findings:
        if finding.level == "failure" and not apart.issuperset(finding.where):
            where = ", ".join(finding.where)
            click.secho(f"check: {finding.title} ({where}). ", fg="yellow", nl=False)
            click.echo(f"See what to do: tarmac check --explain {finding.code}")
