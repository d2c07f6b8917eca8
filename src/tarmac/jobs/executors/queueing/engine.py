"""What an engine with a queue of its own does for `QueueingExecutor`.

An engine starts *units*. A chunk of attempts of the same shape is submitted at once under one name;
each of its units takes one attempt, or a few one after another, to its end.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tarmac.jobs.executors.events import Cause
    from tarmac.jobs.executors.queueing.chunks import ChunkRecord
    from tarmac.jobs.executors.queueing.clusters import ClusterId
    from tarmac.jobs.plan import Task


class UnitName(NamedTuple):
    """Which unit of a run.

    Attributes:
        chunk: The chunk's number.
        unit: The unit's in it, from 0.
    """

    chunk: int
    unit: int


@dataclasses.dataclass(frozen=True)
class Accepted:
    """The engine has taken a chunk.

    Attributes:
        job: The engine's name for it.
    """

    job: str


@dataclasses.dataclass(frozen=True)
class Full:
    """The engine takes no more units of this user now.

    Attributes:
        words: Its own.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class TooLarge:
    """The engine takes no chunk of this size, but takes its units in smaller ones.

    Attributes:
        words: What is too large.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """The engine will never take this.

    Attributes:
        words: Its own.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class Silent:
    """No answer that can be understood: says nothing about any unit.

    Attributes:
        words: Who is silent, and what was heard: ``squeue: Socket timed out``.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class Shown:
    """A unit that the engine holds.

    Attributes:
        phase: Whether it waits, runs, or is over and soon forgotten.
        place: The engine's name for it: ``80_3``.
        reason: Why it waits, in words.
        host: Where it runs.
        restarts: How often the engine has begun it again; None where that is not shown.
        ending: How it is over, where it is.
    """

    phase: Literal["waiting", "running", "over"]
    place: str
    reason: str = ""
    host: str = ""
    restarts: int | None = None
    ending: Ending | None = None


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a unit ended, by the engine's word.

    Attributes:
        cause: Why it did not succeed; None where the engine says that it did.
        words: The same in words.
        host: Where it ran.
        when: It ended, as the engine writes it, to tell it from an earlier try's; empty where that
            is not said.
        near_limit: The time limit that it was near to, in words; empty where it was not, None
            where that is not known.
        bad_host: The node whose GPUs were found unfit before its agent began; empty where none was.
        begun_words: The words where the attempt's agent has begun; empty where `words` hold too.
        is_own_limit: Whether a limit of the attempt's own ended it, which its agent cannot know.
    """

    cause: Cause | None
    words: str
    host: str = ""
    when: str = ""
    near_limit: str | None = None
    bad_host: str = ""
    begun_words: str = ""
    is_own_limit: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """What is asked of an engine for a task, beside what its units need.

    Attributes:
        per_unit: So many attempts one unit takes to their ends, one after another.
        pending_limit_s: So long an attempt waits in the engine's queue at most; None for ever.
        goes_on_after_limit: Whether another attempt goes on once the engine's own time limit has
            ended one, as often as that happens.
    """

    per_unit: int = 1
    pending_limit_s: float | None = None
    goes_on_after_limit: bool = False


class Engine(Protocol):
    """A place with a queue of its own. No call blocks for longer than a minute or two.

    Calls come from one thread at a time, not always the same.

    Attributes:
        title: For messages: ``Slurm``.
        most_units: A chunk has at most so many.
    """

    title: str
    most_units: int

    @property
    def keeps_units(self) -> bool:
        """Whether units go on without this process, so that another cluster must not be taken."""
        ...

    def cluster(self) -> ClusterId | None:
        """Return which cluster this is, the same for whoever asks; None while it does not say."""
        ...

    def shape(self, task: Task) -> Mapping[str, Any]:
        """Return what units of a task need, as JSON: attempts of equal shape share chunks."""
        ...

    def terms(self, task: Task) -> Terms:
        """Return what is asked of the engine for a task."""
        ...

    def submit(
        self, chunk: ChunkRecord, *, most_at_once: int | None, excluded: Collection[str]
    ) -> Accepted | Full | TooLarge | Refused | Silent:
        """Submit a chunk.

        Args:
            chunk: Its file is written.
            most_at_once: So many of its units may run at once; None leaves it to the engine.
            excluded: Hosts where they may not run.

        Returns:
            A `Silent` where it is not known whether the engine has taken it: `find` it first.
        """
        ...

    def find(self, chunk: ChunkRecord) -> Accepted | Silent | None:
        """Return what the engine has under a chunk's name, also ended; None where nothing."""
        ...

    def look(self, chunks: Sequence[ChunkRecord]) -> Mapping[UnitName, Shown] | Silent:
        """Return the units of some chunks that the engine holds, by one call for all."""
        ...

    def endings(
        self, units: Iterable[tuple[ChunkRecord, int]]
    ) -> Mapping[UnitName, Ending] | Silent:
        """Return how units ended that the engine holds no more, as far as it still knows."""
        ...

    def last_words(self, chunk: ChunkRecord, unit: int) -> Ending | None:
        """Return how a unit's last try ended, as far as that lies beside the run; no call is made.

        Asked of units that the engine has put back into its queue.
        """
        ...

    def cancel(
        self, units: Sequence[tuple[ChunkRecord, int]] = (), chunks: Sequence[ChunkRecord] = ()
    ) -> Silent | None:
        """End units, or all that chunks have; what is over stays as it is."""
        ...

    def avoid(self, chunk: ChunkRecord, hosts: Collection[str]) -> Silent | None:
        """Let what waits of a chunk not run on hosts, unless no others would do."""
        ...

    def throttle(self, chunk: ChunkRecord, most_at_once: int) -> Silent | None:
        """Let at most so many units of a chunk run at once."""
        ...
