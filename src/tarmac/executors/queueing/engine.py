"""The interface of engines with a queue, which `QueueingExecutor` uses.

An engine starts *units*. The executor submits a chunk of attempts of the same shape at once under
one name. Each unit runs one attempt, or several one after another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from tarmac.executors.events import Cause
from tarmac.executors.queueing.chunks import ChunkRecord
from tarmac.executors.queueing.clusters import ClusterId
from tarmac.tasks.plan import Task


class UnitName(NamedTuple):
    """The identity of a unit in its run.

    Attributes:
        chunk: Number of the chunk in its run, from 0.
        unit: Number of the unit in its chunk, from 0.
    """

    chunk: int
    unit: int


@dataclasses.dataclass(frozen=True)
class Accepted:
    """The engine has accepted a chunk.

    Attributes:
        job: The engine's name for the chunk, such as ``80``.
    """

    job: str


@dataclasses.dataclass(frozen=True)
class Full:
    """The engine accepts no more units of this user now.

    Attributes:
        words: The engine's own message, for people.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class TooLarge:
    """The engine accepts no chunk of this size, but may accept its units in smaller chunks.

    Attributes:
        words: Message that says what is too large.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """The engine will never accept this chunk.

    Attributes:
        words: The engine's own message, for people.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class Silent:
    """No answer, or one that cannot be understood: no evidence about any unit.

    Attributes:
        words: Command or call without an answer, and its message: ``squeue: Socket timed out``.
    """

    words: str


@dataclasses.dataclass(frozen=True)
class Shown:
    """A unit that the engine holds.

    Attributes:
        phase: State of the unit; ``over`` for an ended unit that the engine still shows.
        job: The engine's name for the unit's chunk, as in `Accepted`.
        reason: Reason for waiting, for people; empty for none.
        host: Name of the unit's node, or of several; empty while it has none.
        ending: Ending of the unit, where the engine shows it already; else None.
    """

    phase: Literal["waiting", "running", "over"]
    job: str
    reason: str = ""
    host: str = ""
    ending: Ending | None = None


@dataclasses.dataclass(frozen=True)
class Ending:
    """The end of a unit, as the engine reports it.

    Attributes:
        cause: Kind of failure; None where the engine reports success.
        words: The ending in words, for messages.
        host: Name of the unit's node, or of several; empty where unknown.
        when: Time of the end, as the engine writes it, to distinguish it from an earlier try's;
            empty where not reported.
        near_limit: Time limit that the unit had nearly reached, in words; empty where it had not,
            None where that is unknown.
        bad_host: Node whose GPUs failed the check before the agent began; empty for none.
        begun_words: Replaces `words` once the attempt's agent has begun; empty to keep `words`.
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
    """A task's demands on the engine, beside the needs of its units.

    Attributes:
        per_unit: Attempts that each unit runs, one after another. Default 1.
        pending_limit_s: Most seconds that an attempt may wait in the engine's queue; None for no
            limit.
        goes_on_after_limit: Whether another attempt continues each time that the engine's own time
            limit has ended one.
    """

    per_unit: int = 1
    pending_limit_s: float | None = None
    goes_on_after_limit: bool = False


class Engine(Protocol):
    """An engine with a queue of its own. No call blocks for longer than a minute or two.

    Calls come from one thread at a time, but not always from the same thread. A class whose base is
    `Engine` inherits defaults for an engine that has no terms, and cannot avoid hosts or throttle.
    An engine with several units in a chunk should throttle, or `concurrency` is not reached.

    A chunk's `job` is empty where the executor knows only from an agent's record that the engine
    has the chunk. `look` and `cancel` then go by the chunk's name.

    Attributes:
        title: Name of the engine in messages: ``Slurm``.
        most_units: Most units in one chunk.
    """

    title: str
    most_units: int

    @property
    def keeps_units(self) -> bool:
        """Whether units outlive this process, so that a run must stay on its cluster."""
        return True

    def cluster(self) -> ClusterId | None:
        """Return the cluster's identity, equal for every caller; None while it reports none."""
        ...

    def shape(self, task: Task) -> Mapping[str, Any]:
        """Return the needs of a task's units as JSON: attempts of equal shape share chunks."""
        ...

    def terms(self, task: Task) -> Terms:
        """Return a task's demands on the engine."""
        return Terms()

    def submit(
        self, chunk: ChunkRecord, *, most_at_once: int | None, excluded: Collection[str]
    ) -> Accepted | Full | TooLarge | Refused | Silent:
        """Submit a chunk.

        Args:
            chunk: Chunk to submit, whose file is written already.
            most_at_once: Most of its units that may run at once; None leaves it to the engine.
            excluded: Hosts that the units should avoid, where the engine can exclude hosts.

        Returns:
            A `Silent` where the engine may or may not have the chunk: call `find` next.
        """
        ...

    def find(self, chunk: ChunkRecord) -> Accepted | Silent | None:
        """Find a chunk by its name, also one that has ended; None where the engine has none."""
        ...

    def look(self, chunks: Sequence[ChunkRecord]) -> Mapping[UnitName, Shown] | Silent:
        """Return the units of some chunks that the engine holds, by one call for all chunks."""
        ...

    def endings(
        self, units: Iterable[tuple[ChunkRecord, int]]
    ) -> Mapping[UnitName, Ending] | Silent:
        """Return the endings of units that the engine no longer holds, where it knows them."""
        ...

    def final_status(self, chunk: ChunkRecord, unit: int) -> Ending | None:
        """Return the end of a unit's last try from files of the run, without a call.

        Used for units that the engine has put back into its queue.
        """
        return None

    def cancel(
        self, units: Sequence[tuple[ChunkRecord, int]] = (), chunks: Sequence[ChunkRecord] = ()
    ) -> Silent | None:
        """Cancel units, or all units of chunks; ended units stay as they are."""
        ...

    def avoid(self, chunk: ChunkRecord, hosts: Collection[str]) -> Silent | None:
        """Keep a chunk's waiting units off hosts, unless no other hosts are suitable."""
        return None

    def throttle(self, chunk: ChunkRecord, most_at_once: int) -> Silent | None:
        """Limit how many units of a chunk may run at once."""
        return None
