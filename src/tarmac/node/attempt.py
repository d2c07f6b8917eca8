"""One attempt on one node: GPU check, stage in, program, stage out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tarmac.node.engine import Engine
from tarmac.node.gate import Gate, UnfitGpus
from tarmac.node.gpu_watch import GpuWatch
from tarmac.node.gpus import BrokenGpu, GpuError, choose_gpus, held_by_others
from tarmac.node.program import Ending, Program, run_program
from tarmac.node.records import AttemptSpec, log_file, own_variables
from tarmac.node.staging import Staged, StageError, ask_tarmac
from tarmac.processes import MARK, guarded, parent_of_groups

if TYPE_CHECKING:
    from tarmac.node.inbox import Inbox


class AgentContext(NamedTuple):
    """The context of an attempt on this node.

    Attributes:
        engine: Engine that started this agent.
        environment: Environment variables that this agent was started with.
        inbox: Inbox of this agent, for signals and requests to end.
        mark: Mark by which a guardian finds the processes of this agent.
        gate: GPU check of this agent, with its results so far.
        rank: Rank of this node, from 0.
        meet: Function that waits for the other nodes and returns variables for the program. Called
            after stage in. None for a single node.
        beat: Function that starts the heartbeat if it is not running. Called repeatedly while the
            program runs.
    """

    engine: Engine
    environment: Mapping[str, str]
    inbox: Inbox
    mark: str
    gate: Gate
    rank: int = 0
    meet: Callable[[], Mapping[str, str]] | None = None
    beat: Callable[[], None] = lambda: None


def find_gpus(element: AttemptSpec, engine: Engine) -> list[str]:
    """Return the UUIDs of an attempt's GPUs on this node.

    Raises:
        GpuError: The engine's GPUs are not the GPUs that the attempt asks for.
    """
    if not element.gpus:
        return []
    from tarmac.node.nvml import read_gpus  # noqa: PLC0415 - slows the start of others

    return choose_gpus(
        engine.gpus,
        read_gpus(),
        num_gpus=element.gpus,
        memory_bytes=element.gpu_memory_bytes,
        giver=engine.name,
        host=engine.host,
        is_pretending=element.is_pretending,
    )


def without_gpus(error: GpuError, engine: Engine) -> Ending:
    """Return the ending of an attempt that lacks the GPUs that it asks for.

    Args:
        error: Error with the reason; a `BrokenGpu` also marks this node as bad.
        engine: Engine that started this agent, with the node's name.
    """
    if isinstance(error, BrokenGpu):
        return Ending("failed", "node", f"not started: {error}", bad_host=engine.host)
    return Ending("failed", "start", f"not started: {error}")


def perform(element: AttemptSpec, gpus: Sequence[str], here: AgentContext) -> Ending:
    """Stage in an attempt on this node, run its program and stage out its outputs.

    Args:
        element: Attempt to perform on this node.
        gpus: UUIDs of the attempt's GPUs on this node; pretended GPUs have other names.
        here: Engine, inbox and callbacks of this agent.

    Returns:
        The ending of the attempt. It contains every failure; none is raised.
    """
    try:
        with contextlib.ExitStack() as opened:
            work = opened.enter_context(_work_directory(element, here))
            return _perform_in(work, element, gpus, here)
    except UnfitGpus as error:
        reason = f"not started: {error}"
        return Ending("failed", "node", reason, bad_host=here.engine.host)
    except StageError as error:
        return Ending("failed", "start", f"not started: {error}")
    except OSError as error:
        words = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return Ending("failed", "start", f"not started: {words} (on {here.engine.host})")


def _perform_in(
    work: Path, element: AttemptSpec, gpus: Sequence[str], here: AgentContext
) -> Ending:
    gpu_variables = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    notes = _look_at_gpus(element, gpus, gpu_variables, here)
    if here.inbox.request is not None:
        return Ending("interrupted", here.inbox.request.cause, here.inbox.request.reason)
    staged = None
    if element.stage is not None:
        shares = here.rank > 0 and element.work == "shared"
        words = ("environment" if shares else "in", str(work))
        staged = _ask(element, words, gpu_variables, here)
        if staged.done_before:
            note = f"an earlier attempt has succeeded, see {staged.done_before}"
            return Ending("succeeded", exit_code=0, notes=(note,))
    met = here.meet() if here.meet is not None and here.inbox.request is None else {}
    if here.inbox.request is not None:
        return Ending("interrupted", here.inbox.request.cause, here.inbox.request.reason)
    variables = {
        **here.environment,
        **(staged.variables if staged else {}),
        **gpu_variables,
        **element.variables,
        **own_variables(element, restart=here.engine.restart, rank=here.rank),
        **met,
        **_read_secrets(element, here),
        MARK: here.mark,
    }
    program = _program(element, work, variables, staged, here)
    with contextlib.ExitStack() as opened:
        if program.kill_command:
            opened.enter_context(guarded(here.mark, program.kill_command[:1], parent_of_groups()))
        _say_first(program.stderr, here.engine, notes)
        watch = GpuWatch(() if element.shares_gpus else gpus)
        ending = run_program(program, here.inbox, here.beat)
        unused = watch.close(here.engine.host)
        if ending.outcome == "succeeded":
            notes += unused
    ending = _keep(ending, work, element, gpu_variables, here)
    for path in (program.stdout, program.stderr):
        _remove_if_empty(path)
    return ending._replace(notes=tuple(notes))


def _look_at_gpus(
    element: AttemptSpec, gpus: Sequence[str], gpu_variables: Mapping[str, str], here: AgentContext
) -> list[str]:
    """Check an attempt's GPUs; return a line for each note about them.

    Raises:
        UnfitGpus: The check found an unfit GPU.
    """
    unseen = here.gate.check(
        element,
        gpus,
        environment={**here.environment, **gpu_variables},
        mark=here.mark,
        host=here.engine.host,
        inbox=here.inbox,
    )
    if not gpus or element.shares_gpus:
        return unseen
    from tarmac.node.nvml import reading_use  # noqa: PLC0415 - slows the start of others

    with reading_use(gpus) as read:
        return [*unseen, *held_by_others(read(), here.engine.host)]


def _program(
    element: AttemptSpec,
    work: Path,
    variables: Mapping[str, str],
    staged: Staged | None,
    here: AgentContext,
) -> Program:
    command = staged.command if staged and staged.command else element.command
    in_container = bool(staged and staged.kill_command)
    return Program(
        name=element.command[0] if element.command else element.name,
        command=command,
        directory=work,
        environment=variables,
        stdout=log_file(element.directory, "stdout", here.rank),
        stderr=log_file(element.directory, "stderr", here.rank),
        group=f"tarmac-{here.mark}-{element.task}-{element.number}-{here.rank}",
        kill_command=staged.kill_command if staged else (),
        timeout_s=element.timeout_s,
        memory_bytes=None if in_container else element.memory_bytes,
        grace_s=element.grace_s,
    )


def _read_secrets(element: AttemptSpec, here: AgentContext) -> dict[str, str]:
    """Return the variables whose values are in files.

    Raises:
        StageError: A file cannot be read.
    """
    values = {}
    for name, path in element.secrets.items():
        try:
            values[name] = os.fsdecode(Path(path).read_bytes().rstrip(b"\n"))
        except OSError as error:
            host = here.engine.host
            raise StageError(
                f"the secret {name} cannot be read on {host}: {path}: {error.strerror}"
            ) from error
    return values


@contextlib.contextmanager
def _work_directory(element: AttemptSpec, here: AgentContext) -> Iterator[Path]:
    """Create the working directory; remove it at the end if it is on the node's own disk."""
    if element.work == "shared":
        work = Path(element.directory) / "work"
        work.mkdir(parents=True, exist_ok=True)
        yield work
        return
    place = os.path.expandvars(element.work)
    if "$" in place:
        raise StageError(
            f"work is {element.work}, and {here.engine.host} does not set that variable"
        )
    Path(place).mkdir(parents=True, exist_ok=True)
    # Private, because other users share the scratch disk.
    own = Path(place, f"tarmac-{os.urandom(8).hex()}")
    own.mkdir(mode=0o700)
    try:
        if element.kept:
            lasting = Path(element.directory, "work", element.kept)
            lasting.mkdir(parents=True, exist_ok=True)
            (own / element.kept).symlink_to(lasting)
        yield own
    finally:
        import shutil  # noqa: PLC0415 - slows the start of others

        shutil.rmtree(own, ignore_errors=True)


def _keep(
    ending: Ending,
    work: Path,
    element: AttemptSpec,
    variables: Mapping[str, str],
    here: AgentContext,
) -> Ending:
    """Stage out the outputs, and add the container engine's verdict on memory to the ending."""
    is_kept = ending.outcome != "interrupted" and here.rank == 0
    if element.stage is None or not is_kept:
        return ending
    code = "none" if ending.exit_code is None else str(ending.exit_code)
    try:
        staged = _ask(element, ("out", str(work), ending.outcome, code), variables, here)
    except (StageError, OSError) as error:
        return ending._replace(problems=(f"its outputs were not kept: {error}",))
    if staged.stopped_for and here.inbox.request is not None:
        reason = f"{staged.stopped_for} before its outputs were kept"
        return ending._replace(outcome="interrupted", cause=here.inbox.request.cause, reason=reason)
    if staged.is_over_memory and element.memory_bytes is not None:
        words = f"it took more than {element.memory_bytes / 2**20:.0f} MiB of memory"
        ending = ending._replace(outcome="failed", cause="memory", reason=words)
    return ending._replace(problems=tuple(staged.problems))


def _ask(
    element: AttemptSpec, words: Sequence[str], variables: Mapping[str, str], here: AgentContext
) -> Staged:
    return ask_tarmac(
        element,
        words,
        environment={**here.environment, **variables},
        mark=here.mark,
        host=here.engine.host,
        inbox=here.inbox,
    )


def _say_first(stderr: Path, engine: Engine, notes: Sequence[str]) -> None:
    """Write the notes of an attempt to its stderr file before the program starts."""
    lines = [f"--- {note} ---" for note in notes]
    if engine.restart:
        lines.insert(0, f"--- restart {engine.restart} on {engine.host} ---")
    if lines:
        with stderr.open("ab") as file:
            file.write("\n".join([*lines, ""]).encode())


def _remove_if_empty(path: Path) -> None:
    # File systems of clusters limit the number of files.
    with contextlib.suppress(OSError):
        if not path.stat().st_size:
            path.unlink()
