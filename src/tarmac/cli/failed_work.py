"""Short explanations of failed tasks and trainings, from their logs."""

from __future__ import annotations

import contextlib
import json
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tarmac.errors import Interrupted, PeerFailed, RequestError, reason_of
from tarmac.masking import without_known

if TYPE_CHECKING:
    from tarmac.checks import LogFinding
    from tarmac.runs import Run

# A training names the process that ended first; the others' lost connections are not the cause.
_OF_MISSED_RANKS = frozenset({"rank-unreachable", "nccl-generic"})


def read_tails(paths: Iterable[Path], text: str = "") -> list[LogFinding]:
    """Return the findings at the ends of logs, each failure once, without notes.

    Args:
        paths: Paths of the logs. Missing and unreadable logs are skipped.
        text: Text to read before the logs. Default: none.
    """
    # An error of the reading must not hide the failure itself.
    with contextlib.suppress(Exception):
        from tarmac import checks

        return checks.read_tails(paths, text)
    return []


def in_short(finding: LogFinding) -> str:
    """Return a line with the failure and the first command to type."""
    words = f"known failure: {finding.title} [{finding.code}]. What to do: {finding.fix[0]}"
    return without_known(words)


@contextlib.contextmanager
def explaining_failure(reference: str, output: str | None, *, as_json: bool) -> Iterator[None]:
    """Add findings to a training's error, from its text and the logs of its processes.

    Args:
        reference: Reference of the run; ``latest`` for a new run.
        output: Directory of the runs, as the user gave it. None: the default.
        as_json: Whether to print the failed run as JSON.
    """
    try:
        yield
    except (Interrupted, PeerFailed, RequestError):
        raise
    except Exception as error:
        run = _failed_run(error, reference, output)
        logs = () if run is None else sorted((run.path / "logs").glob("rank-*"))
        text = "".join(traceback.format_exception(error))
        findings = [f for f in read_tails(logs, text) if f.code not in _OF_MISSED_RANKS]
        if as_json and run is not None:
            result = {
                "path": str(run.path),
                "status": run.record.status,
                "workload": run.record.workload,
                "error": run.record.error,
                "findings": [finding.model_dump(mode="json") for finding in findings],
            }
            click.echo(json.dumps(result, indent=2))
        for finding in findings:
            error.add_note(in_short(finding))
        raise


def _failed_run(error: Exception, reference: str, output: str | None) -> Run | None:
    """Return the run that an error has ended; None if no run had begun."""
    from tarmac import runs

    directory = None if output is None or "://" in output else Path(output)
    # An error while runs are read must not hide the first error.
    with contextlib.suppress(Exception):
        run = runs.resolve(reference, directory)
        if run.record.error == without_known(reason_of(error)):
            return run
    return None
