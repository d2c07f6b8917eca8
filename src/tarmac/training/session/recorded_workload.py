"""Finding the workload of a run again, by its name in the run's record."""

from __future__ import annotations

from pathlib import Path

from tarmac.errors import RequestError, quoted
from tarmac.files import refuse_foreign_python
from tarmac.runs import Run
from tarmac.workloads import Workload, find_workload, reference_of


def workload_of(run: Run, requested: str | Workload | None) -> Workload:
    """Find a run's workload again, and check it against the requested one.

    Args:
        run: Run with a record that names the workload.
        requested: Requested workload; None for the recorded one. Finding a recorded workload may
            execute a file of the user, but never a file of another user.

    Raises:
        RequestError: The requested workload differs from the recorded one, does not exist any
            more, is in another user's file, or is named by another user's run.
    """
    recorded_as = str(run.record.configuration["workload"])
    if isinstance(requested, Workload):
        workload, names = requested, (requested.name, *_importable(requested))
    else:
        if requested is None:
            line = quoted("tarmac", "train", recorded_as, "--resume", run.path)
            option = quoted("--workload", recorded_as)
            again = f"{line}\nFor eval, predict and export: {option}"
            refuse_foreign_python(recorded_as, run.path / "run.json", again=again)
        names = (recorded_as if requested is None else absolute_reference(requested),)
        workload = find_workload(names[0])
    if recorded_as not in names:
        raise RequestError(f"run {run.name} is of {recorded_as}, not of {names[0]}")
    return workload


def absolute_reference(reference: str) -> str:
    """Make the path of a workload's file absolute, as later commands run in other directories."""
    path, separator, attribute = reference.rpartition(":")
    return f"{Path(path).resolve()}:{attribute}" if separator else reference


def _importable(workload: Workload) -> tuple[str, ...]:
    """Return the name under which workers can import a workload; empty if there is none."""
    try:
        return (reference_of(workload),)
    except RequestError:
        return ()
