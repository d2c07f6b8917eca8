"""What passes between a runner and the agents of its run, through files that both see.

The runner writes a chunk, a file of elements, each one attempt of a task; the engine starts an
agent for each. The agent of an attempt, and it alone, writes the attempt's record: who could create
the file exclusively has claimed the attempt.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tarmac.node.durable import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What the agents of several nodes are called with, beside the one that conducts.
PART = "--part"

# Why an attempt ended. The first five are its own and spend a retry; `cancelled` is somebody's will
# and ends the task; the rest are disturbances, which have a budget of their own:
# exit, signal, timeout, memory, start (it never began); cancelled (from outside), stop (by Tarmac);
# preempted, node, evicted, lost.
Cause = str

_SCHEMA = 1

# A record has some thousands; a hole in a file has no end.
_MAX_BYTES = 2**24

# Immutable to whoever has it, and JSON takes it.
_NOTHING: Mapping[str, Any] = {}


class Element(NamedTuple):
    """One attempt of a task, ready for an agent.

    Attributes:
        task: Index of the task in its job, from 0.
        name: Name of the task, unique in its job.
        number: Number of the attempt, from 1.
        nonce: Identifier of this submission. A record with another nonce belongs to another
            submission.
        directory: The task's: gets ``stdout``, ``stderr``, ``work/`` and the attempt's record.
        command: The program and its arguments; ``{python}`` in ``python`` mode is resolved here.
        variables: What the program gets beside the engine's own environment.
        secrets: Variables whose values are in files: name to path, read on the node.
        timeout_s: Time limit of the program in seconds. Default: none.
        memory_bytes: Memory limit of the program in bytes. Default: none.
        gpus: GPUs that each node must have given it.
        gpu_memory_bytes: That each of those must have.
        nodes: How many nodes it runs on, together.
        grace_s: Between SIGTERM and SIGKILL.
        work: ``shared``, below `directory`, or a directory on the node's own disk, whose
            variables, as in ``$TMPDIR``, are the node's.
        kept: What in that is to outlive the attempt, and is kept below `directory`.
        stage: A request to Tarmac itself, as text, to bring inputs and the environment and to keep
            outputs; None where there is nothing to bring or keep.
        python: Tarmac's own interpreter where the run was submitted, for `stage`.
        is_pretending: Whether GPUs are taken for given that no driver shows, to try things out.
        shares_gpus: Whether others may be at work on its GPU.
        check: ``quick`` where its GPUs are to be checked before it begins, else ``off``.
        beat_s: Between two beats of its agent's record, in seconds.
    """

    task: int
    name: str
    number: int
    nonce: str
    directory: str
    command: list[str]
    variables: Mapping[str, str] = _NOTHING
    secrets: Mapping[str, str] = _NOTHING
    timeout_s: float | None = None
    memory_bytes: int | None = None
    gpus: int = 0
    gpu_memory_bytes: int | None = None
    nodes: int = 1
    grace_s: float = 10.0
    work: str = "shared"
    kept: str = ""
    stage: str | None = None
    python: str = ""
    is_pretending: bool = False
    shares_gpus: bool = False
    check: str = "off"
    beat_s: float = 30.0


def own_variables(element: Element, *, restart: int, rank: int) -> dict[str, str]:
    """Return what an agent tells an attempt's program of it, as variables.

    Args:
        element: Attempt whose task, number and sizes the variables hold.
        restart: How often the engine has begun it again.
        rank: Rank of the node, from 0.
    """
    return {
        "TARMAC_TASK": element.name,
        "TARMAC_TASK_INDEX": str(element.task),
        "TARMAC_ATTEMPT": str(element.number),
        "TARMAC_RESTART": str(restart),
        "TARMAC_NODES": str(element.nodes),
        "TARMAC_NODE_RANK": str(rank),
        "TARMAC_GPUS_PER_NODE": str(element.gpus),
    }


class Chunk(NamedTuple):
    """A file of elements: JSON lines, with an index of where each begins.

    ``NNNN.spec`` holds the lines and ``NNNN.index`` 8 bytes for each, little-endian, so that the
    last of a million is found as fast as the first.

    Attributes:
        spec: The file of lines.
    """

    spec: Path

    def write(self, elements: list[Element]) -> None:
        """Write it whole; it is there only once it is complete."""
        lines = [json.dumps(element._asdict()).encode() + b"\n" for element in elements]
        offsets, at = [], 0
        for line in lines:
            offsets.append(at.to_bytes(8, "little"))
            at += len(line)
        replace_file(self._index, b"".join(offsets))
        replace_file(self.spec, b"".join(lines))

    def element(self, number: int) -> Element:
        """Return one of its elements.

        Raises:
            IndexError: It has no such element.
            OSError: It cannot be read.
        """
        with self._index.open("rb") as index:
            index.seek(8 * number)
            offset = index.read(8)
        if len(offset) < 8:
            raise IndexError(f"{self.spec} has no element {number}")
        with self.spec.open("rb") as lines:
            lines.seek(int.from_bytes(offset, "little"))
            return Element(**json.loads(lines.readline()))

    @property
    def _index(self) -> Path:
        return self.spec.with_suffix(".index")


class AttemptRecord(NamedTuple):
    """What the agent of an attempt has written of it: claim, heartbeat and result in one file.

    Attributes:
        nonce: Identifier of the submission, from `Element.nonce`.
        state: ``claimed``, ``began``, ``ended``; or ``fenced`` by a runner that gave it up before
            anybody had claimed it.
        restart: How often the engine has begun it again; a newer one takes the file over.
        host: Where, by the engine's name for the node.
        engine_id: The engine's name for it: ``80_3``.
        beat: Grows while the agent lives; clocks of hosts differ, so it is no time.
        process: The agent's, as `tarmac.processes.ProcessIdentity` has it: one on the same machine
            is known to be dead or alive at once.
        gpus: UUIDs, or what the engine named, of the GPUs that it has.
        outcome: ``succeeded``, ``failed`` or ``interrupted``, once it has ended.
        cause: Why it did not succeed.
        reason: The same in words.
        exit_code: The program's; None where it was not started, negative for a signal.
        seconds: It ran, without its inputs and outputs.
        problems: What went wrong with its outputs, a line each.
        bad_host: The node whose GPUs were found unfit; empty where none was.
        notes: What was found beside its work, a line each.
    """

    nonce: str
    state: str
    restart: int = 0
    host: str = ""
    engine_id: str = ""
    beat: int = 0
    process: Mapping[str, Any] = _NOTHING
    gpus: Sequence[str] = ()
    outcome: str | None = None
    cause: Cause = ""
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    problems: Sequence[str] = ()
    bad_host: str = ""
    notes: Sequence[str] = ()
    schema: int = _SCHEMA

    def to_bytes(self) -> bytes:
        """Return it as the file holds it."""
        return json.dumps(self._asdict()).encode() + b"\n"


_TEXTS = ("nonce", "state", "host", "engine_id", "cause", "reason", "bad_host")
_WHOLE = ("restart", "beat", "schema")
_LISTS = ("gpus", "problems", "notes")


def attempt_file(directory: Path, number: int) -> Path:
    """Return the file of an attempt's record, in its task's directory."""
    return directory / f"attempt-{number}.json"


def fence_file(directory: Path, number: int) -> Path:
    """Return the file that tells an agent, at its next beat, to end its attempt."""
    return directory / f"attempt-{number}.fence"


def log_file(directory: str | Path, stream: str, rank: int) -> Path:
    """Return the file that an attempt's program prints to on a node.

    Args:
        directory: Directory of the task, which holds its logs.
        stream: Name of the stream: ``stdout`` or ``stderr``.
        rank: Rank of the node; 0 adds no suffix to the file's name.
    """
    return Path(directory, f"{stream}.node-{rank}" if rank else stream)


def read_attempt(directory: Path, number: int) -> AttemptRecord | None:
    """Return an attempt's record; None where nobody has claimed it, or a newer agent wrote it.

    Raises:
        OSError: It is there and cannot be read.
    """
    try:
        # The directory is opened anew, upon which network file systems ask their server.
        os.close(os.open(directory, os.O_RDONLY))
        # A pipe in its place would keep a reader waiting.
        flags = os.O_RDONLY | os.O_NONBLOCK
        with os.fdopen(os.open(attempt_file(directory, number), flags), "rb") as file:
            text = file.read(_MAX_BYTES) or b""
    except FileNotFoundError:
        return None
    return parse_attempt(text)


def parse_attempt(text: bytes) -> AttemptRecord | None:
    """Return an attempt's record; None where it is damaged, or a newer agent wrote it."""
    try:
        values: dict[str, Any] = json.loads(text)
        record = AttemptRecord(**values)
    except (ValueError, TypeError, RecursionError):
        return None
    types = ((_TEXTS, str), (_WHOLE, int), (_LISTS, list), (("process",), dict))
    is_whole = all(isinstance(values[n], t) for names, t in types for n in names if n in values)
    is_whole = is_whole and isinstance(record.seconds, (int, float))
    is_whole = is_whole and isinstance(record.exit_code, (int, type(None)))
    is_whole = is_whole and isinstance(record.outcome, (str, type(None)))
    return record if is_whole and values.get("schema") == _SCHEMA else None
