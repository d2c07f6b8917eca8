"""The workload of a run, found again by the name that the run's record has."""

from __future__ import annotations

from pathlib import Path

from tarmac.errors import RequestError, quoted
from tarmac.files import refuse_foreign_python
from tarmac.runs import Run
from tarmac.workloads import Workload, find_workload, reference_of


def workload_of(run: Run, asked: str | Workload | None) -> Workload:
    """Find a run's workload again, which must be the one that is asked for.

    Args:
        run: Run with a record that names the workload.
        asked: None for what the record names, which runs a user's own file, but no other user's.

    Raises:
        RequestError: It is another one, is not there any more, or is the file of another user, or
            a run of theirs names it.
    """
    recorded_as = str(run.record.configuration["workload"])
    if isinstance(asked, Workload):
        workload, names = asked, (asked.name, *_importable(asked))
    else:
        if asked is None:
            line = quoted("tarmac", "train", recorded_as, "--resume", run.path)
            option = quoted("--workload", recorded_as)
            again = f"{line}\nFor eval, predict and export: {option}"
            refuse_foreign_python(recorded_as, run.path / "run.json", again=again)
        names = (recorded_as if asked is None else absolute_reference(asked),)
        workload = find_workload(names[0])
    if recorded_as not in names:
        raise RequestError(f"run {run.name} is of {recorded_as}, not of {names[0]}")
    return workload


def absolute_reference(reference: str) -> str:
    """Make a workload's file absolute, so that it is found from any directory later."""
    path, separator, attribute = reference.rpartition(":")
    return f"{Path(path).resolve()}:{attribute}" if separator else reference


def _importable(workload: Workload) -> tuple[str, ...]:
    """Return the name by which workers would find a workload, where there is one."""
    try:
        return (reference_of(workload),)
    except RequestError:
        return ()
