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
        chunk: Number of the chunk in its run, from 0.
        unit: Number of the unit in its chunk, from 0.
    """

    chunk: int
    unit: int


@dataclasses.dataclass(frozen=True)
class Accepted:
    """The engine has taken a chunk.

    Attributes:
        job: The engine's name for the chunk, such as ``80``.
    """

    job: str


@dataclasses.dataclass(frozen=True)
class Full:
    """The engine takes no more units of this user now.

    Attributes:
        words: The engine's own message, for people.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class TooLarge:
    """The engine takes no chunk of this size, but takes its units in smaller ones.

    Attributes:
        words: Message that says what is too large.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """The engine will never take this.

    Attributes:
        words: The engine's own message, for people.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class Silent:
    """No answer that can be understood: says nothing about any unit.

    Attributes:
        words: Source of the silence and its message: ``squeue: Socket timed out``.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class Shown:
    """A unit that the engine holds.

    Attributes:
        phase: Whether it waits, runs, or is over and soon forgotten.
        place: The engine's name for it: ``80_3``.
        reason: Reason for waiting, for people; empty for none.
        host: Name of the unit's node, or of several; empty while it has none.
        restarts: Number of times that the engine has restarted the unit; None where the engine does
            not show it.
        ending: Ending of the unit, where the engine shows it already; else None.
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
        cause: Kind of failure; None where the engine reports success.
        words: The ending in words, for messages.
        host: Name of the unit's node, or of several; empty where unknown.
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
        per_unit: Attempts that each unit runs, one after another. Default 1.
        pending_limit_s: Most seconds that an attempt may wait in the engine's queue; None for no
            limit.
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
        title: Name of the engine in messages: ``Slurm``.
        most_units: Most units in one chunk.
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
            chunk: Chunk to submit, whose file is written already.
            most_at_once: Most of its units that may run at once; None leaves it to the engine.
            excluded: Hosts that the units must avoid.

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
