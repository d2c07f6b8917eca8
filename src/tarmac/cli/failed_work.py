"""What the logs of a task or a training that failed say, in short, under its failure."""

from __future__ import annotations

import contextlib
import json
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tarmac.errors import Interrupted, PeerFailed, RequestError, reason_of
from tarmac.masking import without_known

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tarmac.checks import LogFinding
    from tarmac.runs import Run

# A training names the process that ended first; that others miss it is no cause of anything.
_OF_MISSED_RANKS = frozenset({"rank-unreachable", "nccl-generic"})


def read_tails(paths: Iterable[Path], said: str = "") -> list[LogFinding]:
    """Return what the ends of logs show, each failure once; what is only worth knowing is left out.

    Args:
        paths: The logs; those that are missing or cannot be read are passed over.
        said: What is to be read before them.
    """
    # Whatever is wrong with the reading: the failure itself is what matters.
    with contextlib.suppress(Exception):
        from tarmac import checks

        return checks.read_tails(paths, said)
    return []


def in_short(finding: LogFinding) -> str:
    """Return a line with what is wrong and the first thing to type."""
    words = f"known failure: {finding.title} [{finding.code}]. What to do: {finding.fix[0]}"
    return without_known(words)


@contextlib.contextmanager
def explaining_failure(reference: str, output: str | None, *, as_json: bool) -> Iterator[None]:
    """Add to an error of a training what it and the logs of its processes show.

    Args:
        reference: The run, ``latest`` where it is a new one.
        output: Where the user said that runs lie.
        as_json: Print the run that has failed as JSON.
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
    """Return the run that an error has ended; None where none had begun."""
    from tarmac import runs

    directory = None if output is None or "://" in output else Path(output)
    # That no run can be read must not hide why there is none.
    with contextlib.suppress(Exception):
        run = runs.resolve(reference, directory)
        if run.record.error == without_known(reason_of(error)):
            return run
    return None
