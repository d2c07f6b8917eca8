"""The history of a run's tasks, and the endings that a resumed run reuses."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tarmac.errors import TarmacError
from tarmac.files import StorageError
from tarmac.hkube.hosting import Ending, Work
from tarmac.hkube.running.results import Place, Results
from tarmac.jobs import Cause, Journal, read_journal

_JOURNAL = "journal.jsonl"
_RESULTS = "results.msgpack"


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedResult:
    """The ending of a task in an earlier session.

    Attributes:
        position: Position of the ending in the journal; endings are replayed in this order.
        digest: Digest of the task's input. The result belongs to this input only.
        place: Offset and size of the result in the results file, in bytes. None if the task failed.
        message: Reason for the failure in words. Default: empty.
        is_image: Whether it failed because of its image. Default False.
    """

    position: int
    digest: str
    place: Place | None
    message: str = ""
    is_image: bool = False


class History:
    """The journal of a run, with the endings of earlier sessions.

    Args:
        run: Directory of the run, which holds the journal.
        journal: Journal of the run, open for writing.
        results: Results file of the run, open for writing.
        keeps_failures: Whether to keep failed tasks instead of trying them again, for a killed run
            that had continued beyond them.
    """

    def __init__(
        self, run: Path, journal: Journal, results: Results, *, keeps_failures: bool
    ) -> None:
        self._run = run
        self._journal = journal
        self._results = results
        self._indices: dict[str, int] = {}
        self._attempts: dict[int, int] = {}
        self._earlier: dict[str, RecordedResult] = {}
        path = run / _JOURNAL
        for position, event in enumerate(read_journal(path) if path.exists() else ()):
            self._indices[event["name"]] = event["task"]
            if event["event"] == "ended":
                self._keep(position, event)
            elif event["event"] == "reopened":
                self._earlier.pop(event["name"], None)
        self._next = max(self._indices.values(), default=-1) + 1
        if not keeps_failures:
            self._reopen_failed()

    @property
    def has_earlier(self) -> bool:
        """Whether any earlier ending was not taken yet."""
        return bool(self._earlier)

    def take_earlier(self, name: str) -> RecordedResult | None:
        """Remove and return the earlier ending of a task, or None."""
        return self._earlier.pop(name, None)

    def forget(self, name: str) -> None:
        """Drop the index of a task that is not run again."""
        self._indices.pop(name, None)

    def value(self, place: Place) -> Any:
        """Return a task's result.

        Raises:
            TarmacError: The result cannot be read.
        """
        return self._results.read(place)

    def index_of(self, name: str) -> int:
        """Return the number of a task in the run, the same in each session.

        Call it once per task and session: names are dropped to save memory with 100,000 tasks.
        """
        index = self._indices.pop(name, None)
        if index is None:
            index, self._next = self._next, self._next + 1
        return index

    def started(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str = ""
    ) -> None:
        """Record the start of an attempt with its GPUs and, on a cluster, its host."""
        self._note(
            "started",
            work,
            attempt,
            directory=self._shown(directory),
            **({"gpus": [*gpus]} if gpus else {}),
            **({"host": host} if host else {}),
        )

    def queued(self, work: Work, attempt: int, directory: Path, place: str) -> None:
        """Record that an attempt is in an engine's queue."""
        self._note("queued", work, attempt, directory=self._shown(directory), place=place)

    def kept(self, work: Work, attempt: int, reason: str, *, is_at_work: bool) -> None:
        """Record why an attempt waits, in the queue or while running."""
        self._note("noted" if is_at_work else "waiting", work, attempt, reason=reason)

    def requeued(self, work: Work, attempt: int, cause: Cause, reason: str) -> None:
        """Record that an attempt is in the queue again."""
        self._note("requeued", work, attempt, cause=cause, reason=reason)

    def restarting(
        self, work: Work, attempt: int, cause: Cause | None, reason: str, *, goes_on: bool
    ) -> None:
        """Record that another attempt follows, with the kind of failure that an engine reports."""
        self._note(
            "retried",
            work,
            attempt,
            reason=reason,
            **({} if cause is None else {"cause": cause}),
            **({"goes_on": True} if goes_on else {}),
        )

    def retrying(self, work: Work, reason: str) -> None:
        """Record that a failed attempt is retried."""
        attempt = self._attempts.get(work.index, 0)
        self.restarting(work, attempt, None, reason, goes_on=False)

    def ended(self, endings: Sequence[tuple[Ending, str]]) -> list[Ending]:
        """Record the endings of tasks, and store their results; wait for the disk once.

        Args:
            endings: Ending of each task, with its result if it succeeded, and the digest of the
                task's input, from `digest_of`.

        Returns:
            The same endings, with a failure for each result of a kind that cannot be stored.

        Raises:
            StorageError: The files cannot be written, for example because of a full disk.
        """
        recorded: list[Ending] = []
        events: list[dict[str, Any]] = []
        for ending, digest in endings:
            stored, place = self._stored(ending)
            self._attempts.pop(stored.work.index, None)
            recorded.append(stored)
            events.append(_event_of(stored, digest, place))
        if any(ending.succeeded for ending in recorded):
            self._results.sync()
        self._journal.write_all(events)
        return recorded

    def _stored(self, ending: Ending) -> tuple[Ending, Place | None]:
        """Store a task's result; return the ending, or a failure, and the result's place."""
        if not ending.succeeded:
            return ending, None
        try:
            return ending, self._results.append(ending.value)
        except StorageError:
            raise
        except TarmacError as error:
            failed = dataclasses.replace(ending, value=None, why="error", message=error.message)
            return failed, None

    def _note(self, event: str, work: Work, attempt: int, **values: Any) -> None:
        self._attempts[work.index] = attempt
        self._journal.write(event, task=work.index, name=work.name, attempt=attempt, **values)

    def _shown(self, directory: Path) -> str:
        return str(directory.relative_to(self._run))

    def _keep(self, position: int, event: dict[str, Any]) -> None:
        name = event["name"]
        self._earlier.pop(name, None)
        if "why" not in event:
            # A cleanup ended the engine's attempts, and no session has read their results.
            return
        if event["outcome"] == "succeeded":
            start, size = event["result"]
            self._earlier[name] = RecordedResult(position, event["input"], (start, size))
        elif event["outcome"] == "failed":
            self._earlier[name] = RecordedResult(
                position, event["input"], None, event["reason"], event["why"] == "image"
            )

    def _reopen_failed(self) -> None:
        """Record that failed tasks are tried again, now or in a later session."""
        failed = [name for name, earlier in self._earlier.items() if earlier.place is None]
        for name in failed:
            del self._earlier[name]
            self._journal.write("reopened", task=self._indices[name], name=name)


def _event_of(ending: Ending, digest: str, place: Place | None) -> dict[str, Any]:
    outcome = "interrupted" if ending.why == "stopped" else "failed"
    return {
        "event": "ended",
        "task": ending.work.index,
        "name": ending.work.name,
        "outcome": "succeeded" if ending.succeeded else outcome,
        "reason": ending.message,
        "exit_code": ending.exit_code,
        "seconds": round(ending.seconds, 6),
        "attempts": ending.attempts,
        "problems": [],
        "why": ending.why,
        "input": digest,
        "result": place,
    }


@contextlib.contextmanager
def open_history(run: Path, *, keeps_failures: bool) -> Iterator[History]:
    """Open the history of a run to continue it; see `History`.

    Raises:
        StorageError: The files cannot be read or written.
        TarmacError: The journal is damaged.
    """
    with Journal(run / _JOURNAL) as journal, contextlib.closing(Results(run / _RESULTS)) as results:
        yield History(run, journal, results, keeps_failures=keeps_failures)
