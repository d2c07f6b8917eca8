"""The files that a runner and the agents of its run exchange.

The runner writes a chunk: a file of elements, each an attempt of a task. The engine starts an agent
for each element. Only the agent that claimed an attempt writes the attempt's record: it claims the
attempt by creating the file exclusively.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tarmac.node.durable import replace_file

# The flag of the agents that run one node's part of an attempt for the conductor.
PART = "--part"

# The cause of an attempt's end:
# - exit, signal, timeout, memory, start (the program never started): own failures; use up a retry.
# - cancelled (from outside): ends the task.
# - stop (by Tarmac), preempted, node, evicted, lost: disturbances, which have their own budget.
Cause = str

_SCHEMA = 1

# A record has some thousand bytes; the bound stops the read of a huge sparse file.
_MAX_BYTES = 2**24

# Typed as read-only, and JSON can serialize it.
_NOTHING: Mapping[str, Any] = {}


class AttemptSpec(NamedTuple):
    """One attempt of a task, ready for an agent.

    Attributes:
        task: Index of the task in its job, from 0.
        name: Name of the task, unique in its job.
        number: Number of the attempt, from 1.
        nonce: Identifier of this submission. A record with another nonce belongs to another
            submission.
        directory: Directory of the task, for ``stdout``, ``stderr``, ``work/`` and the record.
        command: The program and its arguments; ``{python}`` in ``python`` mode is resolved here.
        variables: Environment variables of the program, in addition to the engine's.
        secrets: Paths of files with the values of variables, by variable name; read on the node.
        timeout_s: Time limit of the program in seconds. Default: none.
        memory_bytes: Memory limit of the program in bytes. Default: none.
        gpus: Number of GPUs on each node. Default 0.
        gpu_memory_bytes: Least memory of each GPU in bytes. Default: no bound.
        nodes: Number of nodes that run the attempt together. Default 1.
        grace_s: Seconds between SIGTERM and SIGKILL. Default 10.
        work: ``shared`` for a working directory below `directory`, or a directory on the node's own
            disk. Variables in it, such as ``$TMPDIR``, are expanded on the node.
        kept: Subdirectory of a working directory on the node's disk that outlives the attempt; it
            is a link to a directory below `directory`. Empty: none.
        stage: Request to Tarmac, as text, to stage in inputs and the environment and to stage out
            outputs. None: nothing to stage.
        python: Tarmac's own interpreter on the submitting machine, for `stage`.
        is_pretending: Whether to accept GPUs that no driver shows, for trials without GPUs.
        shares_gpus: Whether other programs may use the same GPU.
        check: ``quick`` to check the GPUs before the program starts, else ``off``.
        beat_s: Seconds between two heartbeats of the agent. Default 30.
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


def own_variables(element: AttemptSpec, *, restart: int, rank: int) -> dict[str, str]:
    """Return the environment variables that describe an attempt to its program.

    Args:
        element: Attempt whose task, number and sizes the variables hold.
        restart: Number of times that the engine has restarted the unit.
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
    """A file of elements: JSON lines, with an index of their offsets.

    ``NNNN.spec`` has the lines. ``NNNN.index`` has each line's offset in 8 bytes, little-endian, so
    that the last of a million elements is found as fast as the first.

    Attributes:
        spec: Path of the file of lines.
    """

    spec: Path

    def write(self, elements: list[AttemptSpec]) -> None:
        """Write all elements; the file appears only when it is complete."""
        lines = [json.dumps(element._asdict()).encode() + b"\n" for element in elements]
        offsets, at = [], 0
        for line in lines:
            offsets.append(at.to_bytes(8, "little"))
            at += len(line)
        replace_file(self._index, b"".join(offsets))
        replace_file(self.spec, b"".join(lines))

    def element(self, number: int) -> AttemptSpec:
        """Return an element by its number, from 0.

        Raises:
            IndexError: The chunk has no such element.
            OSError: The chunk cannot be read.
        """
        with self._index.open("rb") as index:
            index.seek(8 * number)
            offset = index.read(8)
        if len(offset) < 8:
            raise IndexError(f"{self.spec} has no element {number}")
        with self.spec.open("rb") as lines:
            lines.seek(int.from_bytes(offset, "little"))
            return AttemptSpec(**json.loads(lines.readline()))

    @property
    def _index(self) -> Path:
        return self.spec.with_suffix(".index")


class AttemptRecord(NamedTuple):
    """The record of an attempt, written by its agent: claim, heartbeat and result in one file.

    Attributes:
        nonce: Identifier of the submission, from `AttemptSpec.nonce`.
        state: ``claimed``, ``began`` or ``ended``; ``fenced`` if the runner gave up the attempt
            before any agent claimed it.
        restart: Number of times that the engine has restarted the unit. A later restart takes over
            the file.
        host: Engine's name for the agent's node.
        engine_id: Engine's name for the unit, such as ``80_3``.
        beat: Heartbeat counter, which grows while the agent is alive. It is no timestamp because
            clocks of hosts differ.
        process: Fields of the agent's `tarmac.processes.ProcessIdentity`, which show at once
            whether an agent on the same machine is alive.
        gpus: UUIDs of the attempt's GPUs, or the engine's names for them.
        outcome: ``succeeded``, ``failed`` or ``interrupted``. None: not ended yet.
        cause: Cause of a failure or interruption.
        reason: Explanation of the cause in words.
        exit_code: Exit code of the program, negative for a signal. None: not started.
        seconds: Seconds that the program ran, without stage in and stage out.
        problems: Problems with the outputs, a line each.
        bad_host: Name of the node whose GPUs are unfit. Empty: none.
        notes: Further findings about the attempt, a line each.
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
        """Return the content of the record file."""
        return json.dumps(self._asdict()).encode() + b"\n"


_TEXTS = ("nonce", "state", "host", "engine_id", "cause", "reason", "bad_host")
_WHOLE = ("restart", "beat", "schema")
_LISTS = ("gpus", "problems", "notes")


def attempt_file(directory: Path, number: int) -> Path:
    """Return the path of an attempt's record in its task's directory."""
    return directory / f"attempt-{number}.json"


def fence_file(directory: Path, number: int) -> Path:
    """Return the path of the file that makes an agent end its attempt at the next heartbeat."""
    return directory / f"attempt-{number}.fence"


def log_file(directory: str | Path, stream: str, rank: int) -> Path:
    """Return the path of an attempt's log file on a node.

    Args:
        directory: Directory of the task, which holds its logs.
        stream: Name of the stream: ``stdout`` or ``stderr``.
        rank: Rank of the node; 0 adds no suffix to the file's name.
    """
    return Path(directory, f"{stream}.node-{rank}" if rank else stream)


def read_attempt(directory: Path, number: int) -> AttemptRecord | None:
    """Return an attempt's record; None if it is missing, damaged or of a newer schema.

    Raises:
        OSError: The record exists and cannot be read.
    """
    try:
        # Opening the directory makes network file systems ask their server.
        os.close(os.open(directory, os.O_RDONLY))
        # A named pipe in its place would block a reader.
        flags = os.O_RDONLY | os.O_NONBLOCK
        with os.fdopen(os.open(attempt_file(directory, number), flags), "rb") as file:
            text = file.read(_MAX_BYTES) or b""
    except FileNotFoundError:
        return None
    return parse_attempt(text)


def parse_attempt(text: bytes) -> AttemptRecord | None:
    """Return an attempt's record from its file's content; None if damaged or of a newer schema."""
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
