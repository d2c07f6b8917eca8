"""The agent: ``python3 RUN/agent.pyz SPEC UNIT [PER_JOB]``.

SPEC is a chunk's file of elements. The engine's unit UNIT, from 0, runs PER_JOB elements (default
1) one after another, from element UNIT * PER_JOB on. The agent exits with the program's exit code,
128 + n for signal n. With several elements, it exits with the first code that is not 0.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from tarmac.node.attempt import AgentContext, find_gpus, perform, without_gpus
from tarmac.node.claim import Claim, NotOurs, take_claim
from tarmac.node.engine import given_environment, read_engine
from tarmac.node.gate import Gate
from tarmac.node.gpus import GpuError
from tarmac.node.inbox import Inbox
from tarmac.node.program import Ending
from tarmac.node.records import PART, AttemptRecord, AttemptSpec, Chunk
from tarmac.processes import guarded_by_fork, parent_of_groups

# Time until every host sees a file that was written before this agent started.
_SEEN_WITHIN_S = 30
_NOT_STARTED = 1
_WRONG_USE = 2

# The flag of an agent whose files the runner cannot see.
_FRAMED = "--framed"


def run() -> NoReturn:
    """Run the elements that this process's command line names, and exit with the exit code.

    Python's normal shutdown would take as long as the whole overhead of an attempt.
    """
    os._exit(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the elements of one unit of the engine; return the exit code.

    Args:
        arguments: Arguments ``SPEC UNIT [PER_JOB]``. Default: this process's command line.
    """
    argv = sys.argv[1:] if arguments is None else [*arguments]
    if argv[:1] == [PART]:
        return _run_part(Path(argv[1]), int(argv[2]))
    if argv[:1] == [_FRAMED]:
        from tarmac.node.pod import run_framed  # noqa: PLC0415 - slows the start of others

        return run_framed(argv[1:])
    try:
        spec, unit, per_job = argv[0], int(argv[1]), int(argv[2]) if len(argv) > 2 else 1
    except (IndexError, ValueError):
        _say("expected SPEC UNIT [PER_JOB]")
        return _WRONG_USE
    exit_code = 0
    first = unit * per_job
    with _here() as here:
        for number in range(first, first + per_job):
            try:
                element = _read_element(Path(spec), number, here)
            except IndexError:
                break
            except (OSError, ValueError, TypeError) as error:
                _say(f"{error}; do {here.engine.host} and the runner share the run's file system?")
                return _NOT_STARTED
            if number > first and here.inbox.request is not None:
                # Elements are left, so the engine must not take the unit for done.
                return exit_code or _NOT_STARTED
            ended_with = _run(element, [PART, spec, str(number)], here)
            exit_code = exit_code or ended_with
            here.inbox.forget()
    return exit_code


@contextlib.contextmanager
def _here() -> Iterator[AgentContext]:
    """Yield the context of this agent; a guardian ends its processes however the agent ends."""
    environment = given_environment()
    engine = read_engine(environment)
    mark = os.urandom(8).hex()
    with guarded_by_fork(mark, parent_of_groups()):
        inbox = Inbox(signals_all=engine.signals_all, lifeline=0 if engine.has_lifeline else None)
        yield AgentContext(engine, environment, inbox, mark, Gate())


def _read_element(spec: Path, number: int, here: AgentContext) -> AttemptSpec:
    for _ in range(_SEEN_WITHIN_S):
        with contextlib.suppress(FileNotFoundError):
            return Chunk(spec).element(number)
        if here.inbox.is_asked_within(1.0):
            break
    return Chunk(spec).element(number)


def _run_part(spec: Path, number: int) -> int:
    """Run one node's part of an attempt that the conductor has claimed; return the exit code.

    The exit code is 0 if the conductor has the result: otherwise the engine would end all nodes.
    """
    from tarmac.node.member import NotMet, perform_part  # noqa: PLC0415 - slows the start of others

    with _here() as here:
        try:
            perform_part(_read_element(spec, number, here), here)
        except (NotMet, OSError, ValueError, TypeError, IndexError) as error:
            _say(f"{here.engine.host}: {error}")
            return _NOT_STARTED
    return 0


def _run(element: AttemptSpec, part: Sequence[str], here: AgentContext) -> int:
    """Claim an attempt, run it and write its result; return the exit code.

    Args:
        element: Attempt to claim and run.
        part: Arguments of the agents that run one node's part of it.
        here: Engine, inbox and callbacks of this agent.
    """
    engine = here.engine
    record = AttemptRecord(
        element.nonce,
        # On one node without GPUs nothing can prevent the start, so one write is claim and start.
        "claimed" if element.gpus or element.nodes > 1 else "began",
        restart=engine.restart,
        host=engine.host,
        engine_id=engine.unit,
    )
    directory = Path(element.directory)
    try:
        claim = take_claim(
            directory,
            element.number,
            record,
            infers_restarts=engine.infers_restarts,
            beat_s=element.beat_s,
            inbox=here.inbox,
        )
    except NotOurs as refusal:
        _say(f"attempt {element.number} of {element.name} is not started: {refusal}")
        return 0
    except OSError as error:
        _say(f"{directory}: {error}")
        return _NOT_STARTED
    with _send_heartbeats(claim, element, here.inbox) as beat:
        here = here._replace(beat=beat, engine=engine._replace(restart=claim.restart))
        begin = _begin if element.nodes == 1 else functools.partial(_begin_on_all, part)
        ending = begin(element, claim, here)
    if claim.is_lost:
        _say(f"attempt {element.number} of {element.name} now belongs to another agent")
        return 0
    try:
        claim.end(
            outcome=ending.outcome,
            cause=ending.cause,
            reason=ending.reason,
            exit_code=ending.exit_code,
            seconds=ending.seconds,
            problems=ending.problems,
            bad_host=ending.bad_host,
            notes=ending.notes,
        )
    except OSError as error:
        _say(f"the result of attempt {element.number} of {element.name} cannot be written: {error}")
        return _NOT_STARTED
    return _exit_code(ending)


def _begin(element: AttemptSpec, claim: Claim, here: AgentContext) -> Ending:
    try:
        gpus = find_gpus(element, here.engine)
    except GpuError as error:
        return without_gpus(error, here.engine)
    try:
        claim.began(gpus)
    except OSError as error:
        return Ending("failed", "start", f"not started: its record cannot be written: {error}")
    return perform(element, gpus, here)


def _begin_on_all(
    part: Sequence[str], element: AttemptSpec, claim: Claim, here: AgentContext
) -> Ending:
    def began(gpus: list[str]) -> None:
        # The attempt runs all the same, and its result is written in any case.
        with contextlib.suppress(OSError):
            claim.began(gpus)

    from tarmac.node.conductor import conduct  # noqa: PLC0415 - slows the start of others

    return conduct(element, part, here.environment, here.inbox, began, mark=here.mark)


@contextlib.contextmanager
def _send_heartbeats(
    claim: Claim, element: AttemptSpec, inbox: Inbox
) -> Iterator[Callable[[], None]]:
    """Send heartbeats, and end the program once its attempt is fenced or taken over.

    Yields:
        A function that starts the heartbeat thread if it is not running. The thread starts early
        only before slow steps, because a process with one thread starts a program faster.
    """
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.wait(element.beat_s):
            # A temporary failure of the file system must not end the attempt.
            with contextlib.suppress(OSError):
                if words := claim.beat():
                    inbox.ask(words)

    thread = threading.Thread(target=beat, name="tarmac-beat", daemon=True)
    if element.gpus or element.nodes > 1 or element.stage is not None:
        thread.start()
    try:
        yield lambda: None if thread.ident else thread.start()
    finally:
        is_over.set()
        if thread.ident:
            thread.join()


def _exit_code(ending: Ending) -> int:
    if ending.exit_code is None:
        return _NOT_STARTED
    if ending.exit_code < 0:
        return 128 - ending.exit_code
    # An interrupted program, or one over its memory limit, may exit with 0 without success.
    return ending.exit_code or int(ending.outcome != "succeeded")


def _say(words: str) -> None:
    """Print a line to stderr, which the engine keeps."""
    print(f"tarmac: {words}", file=sys.stderr, flush=True)  # noqa: T201 - its only output
