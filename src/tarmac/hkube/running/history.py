"""What has happened to a run's tasks, and what a run that goes on need not do again."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from tarmac.errors import TarmacError
from tarmac.files import StorageError
from tarmac.hkube.running.results import Results
from tarmac.jobs import Journal, read_journal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tarmac.hkube.hosting import Ending, Work
    from tarmac.hkube.running.results import Place
    from tarmac.jobs import Cause

_JOURNAL = "journal.jsonl"
_RESULTS = "results.msgpack"


@dataclasses.dataclass(frozen=True, slots=True)
class Earlier:
    """How a task ended in an earlier session.

    Attributes:
        position: Its place among all endings, for they are gone through in their order.
        digest: Digest of the task's input. The result belongs to this input only.
        place: Offset and size of the result in the results file, in bytes. None if the task failed.
        message: Reason for the failure in words. Default: empty.
        is_image: Whether it failed for its image.
    """

    position: int
    digest: str
    place: Place | None
    message: str = ""
    is_image: bool = False


class History:
    """Writes down what happens, and knows what has happened before.

    Args:
        run: Directory of the run, which holds the journal.
        journal: Journal of the run, open for writing.
        results: Results file of the run, open for writing.
        keeps_failures: Whether tasks that have failed are not tried again: in a run that was
            killed, and had gone on beyond them.
    """

    def __init__(
        self, run: Path, journal: Journal, results: Results, *, keeps_failures: bool
    ) -> None:
        self._run = run
        self._journal = journal
        self._results = results
        self._indices: dict[str, int] = {}
        self._attempts: dict[int, int] = {}
        self._earlier: dict[str, Earlier] = {}
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
        """Whether a task has ended in an earlier session, and was not asked for yet."""
        return bool(self._earlier)

    def take_earlier(self, name: str) -> Earlier | None:
        """Return how a task ended in an earlier session, once; None where it did not."""
        return self._earlier.pop(name, None)

    def forget(self, name: str) -> None:
        """Let go of what is known of a task that is not done again."""
        self._indices.pop(name, None)

    def value(self, place: Place) -> Any:
        """Return a task's result.

        Raises:
            TarmacError: It cannot be read.
        """
        return self._results.read(place)

    def index_of(self, name: str) -> int:
        """Return the number of a task in the run, the same in each session.

        To be asked for once in a session: of a hundred thousand tasks no name is kept.
        """
        index = self._indices.pop(name, None)
        if index is None:
            index, self._next = self._next, self._next + 1
        return index

    def started(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str = ""
    ) -> None:
        """Write down that an attempt begins, which GPUs it has, and on which host of a cluster."""
        self._note(
            "started",
            work,
            attempt,
            directory=self._shown(directory),
            **({"gpus": [*gpus]} if gpus else {}),
            **({"host": host} if host else {}),
        )

    def queued(self, work: Work, attempt: int, directory: Path, place: str) -> None:
        """Write down that an attempt is in an engine's queue."""
        self._note("queued", work, attempt, directory=self._shown(directory), place=place)

    def kept(self, work: Work, attempt: int, reason: str, *, is_at_work: bool) -> None:
        """Write down what keeps an attempt waiting, in the queue or at its work."""
        self._note("noted" if is_at_work else "waiting", work, attempt, reason=reason)

    def requeued(self, work: Work, attempt: int, cause: Cause, reason: str) -> None:
        """Write down that an attempt is in the queue again."""
        self._note("requeued", work, attempt, cause=cause, reason=reason)

    def disturbed(self, work: Work, attempt: int, cause: Cause | None, reason: str) -> None:
        """Write down that another attempt follows, of which the task is not the reason."""
        self._note("retried", work, attempt, reason=reason, cause=cause)

    def retrying(self, work: Work, reason: str) -> None:
        """Write down that another attempt follows."""
        self._note("retried", work, self._attempts.get(work.index, 0), reason=reason)

    def ended(self, ending: Ending, digest: str) -> Ending:
        """Write down how a task ended, and store its result.

        Args:
            ending: Ending of the task, with its result if it succeeded.
            digest: Digest of the task's input, from `digest_of`.

        Returns:
            The same, or that it has failed, where its result cannot be stored at all.

        Raises:
            StorageError: There is no room for it, or the like.
        """
        place: Place | None = None
        if ending.succeeded:
            try:
                place = self._results.append(ending.value)
            except StorageError:
                raise
            except TarmacError as error:
                ending = dataclasses.replace(ending, value=None, why="error", message=error.message)
        work = ending.work
        self._attempts.pop(work.index, None)
        outcome = "interrupted" if ending.why == "stopped" else "failed"
        self._journal.write(
            "ended",
            task=work.index,
            name=work.name,
            outcome="succeeded" if ending.succeeded else outcome,
            reason=ending.message,
            exit_code=ending.exit_code,
            seconds=round(ending.seconds, 6),
            attempts=ending.attempts,
            problems=[],
            why=ending.why,
            input=digest,
            result=place,
        )
        return ending

    def _note(self, event: str, work: Work, attempt: int, **values: Any) -> None:
        self._attempts[work.index] = attempt
        self._journal.write(event, task=work.index, name=work.name, attempt=attempt, **values)

    def _shown(self, directory: Path) -> str:
        return str(directory.relative_to(self._run))

    def _keep(self, position: int, event: dict[str, Any]) -> None:
        name = event["name"]
        self._earlier.pop(name, None)
        if "why" not in event:
            # Attempts that an engine had were ended, and nobody has looked at their results.
            return
        if event["outcome"] == "succeeded":
            start, size = event["result"]
            self._earlier[name] = Earlier(position, event["input"], (start, size))
        elif event["outcome"] == "failed":
            self._earlier[name] = Earlier(
                position, event["input"], None, event["reason"], event["why"] == "image"
            )

    def _reopen_failed(self) -> None:
        """Write down that what has failed is tried again, now or in a later session."""
        failed = [name for name, earlier in self._earlier.items() if earlier.place is None]
        for name in failed:
            del self._earlier[name]
            self._journal.write("reopened", task=self._indices[name], name=name)


@contextlib.contextmanager
def open_history(run: Path, *, keeps_failures: bool) -> Iterator[History]:
    """Open what has happened in a run, to go on with it; see `History`.

    Raises:
        StorageError: It cannot be read or written.
        TarmacError: The journal is damaged.
    """
    with Journal(run / _JOURNAL) as journal, contextlib.closing(Results(run / _RESULTS)) as results:
        yield History(run, journal, results, keeps_failures=keeps_failures)
