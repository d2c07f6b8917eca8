"""Stage in and stage out of an attempt: inputs, the environment and outputs.

Tarmac's own interpreter from the submitting machine does the work: ``python -m
tarmac.executors.stage``. It reads a request from its standard input, and writes a JSON object
to its standard output.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tarmac.node.program import supervise
from tarmac.node.records import AttemptSpec
from tarmac.processes import MARK, last_line, python_command, spawn, watch

if TYPE_CHECKING:
    from tarmac.node.inbox import Inbox

_MODULE = "tarmac.executors.stage"

# Part of Python's own error message.
_LACKS_TARMAC = "No module named 'tarmac"

_NOTHING: Mapping[str, str] = {}


class StageError(Exception):
    """Stage in or stage out failed; the message says why."""


class Staged(NamedTuple):
    """The answer of a stage request.

    Attributes:
        variables: Environment variables that activate the environment that was built.
        command: Command to run instead of the element's command. None: the element's command.
        kill_command: Command that ends the container. Empty: no container.
        problems: Problems with the outputs, a line each.
        is_over_memory: Whether the container was ended for its memory.
        done_before: Evidence that an earlier attempt has succeeded. Empty: none.
        stopped_for: Why the staging ended before it had an answer. Empty: it has one.
    """

    variables: Mapping[str, str] = _NOTHING
    command: list[str] | None = None
    kill_command: Sequence[str] = ()
    problems: Sequence[str] = ()
    is_over_memory: bool = False
    done_before: str = ""
    stopped_for: str = ""


def ask_tarmac(
    element: AttemptSpec,
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    mark: str,
    host: str,
    inbox: Inbox,
) -> Staged:
    """Carry out the stage request of an attempt.

    Args:
        element: Attempt whose `stage` request is carried out.
        words: Arguments of the module: ``in WORK``, ``environment WORK`` or ``out WORK OUTCOME
            EXIT_CODE``.
        environment: Complete environment of the staging process.
        mark: Mark by which a guardian finds the processes of this agent.
        host: Name of this node, for errors.
        inbox: Inbox whose requests end the staging.

    Raises:
        StageError: The request failed.
    """
    assert element.stage is not None
    answer, code, error_line = ask_module(
        element,
        [_MODULE, *words],
        element.stage,
        what="has inputs, outputs, a container or a virtual environment",
        environment=environment,
        mark=mark,
        host=host,
        inbox=inbox,
    )
    if inbox.request is not None and code:
        return Staged(stopped_for=inbox.request.reason)
    return _understand(answer, code, error_line)


def ask_module(
    element: AttemptSpec,
    words: Sequence[str],
    stdin: str,
    *,
    what: str,
    environment: Mapping[str, str],
    mark: str,
    host: str,
    inbox: Inbox,
    timeout_s: float | None = None,
) -> tuple[bytes, int, str]:
    """Run a module of Tarmac; return its output, exit code and last error line.

    Args:
        element: Attempt that the module works for, with Tarmac's interpreter.
        words: The module and its arguments.
        stdin: Text for the module's standard input.
        what: Why the task needs Tarmac on its node, in words, such as ``has inputs``.
        environment: Complete environment of the module's process.
        mark: Mark by which a guardian finds the processes of this agent.
        host: Name of this node, for errors.
        inbox: Inbox whose requests end the module.
        timeout_s: Time limit in seconds. Default: none.

    Raises:
        StageError: Tarmac's interpreter is not on this node.
    """
    python = _interpreter(element.python)
    if python is None:
        how = f"is not on {host}"
        raise StageError(_without_tarmac(element, what, how, environment))
    with _memory("request") as request, _memory("answer") as answer, _memory("errors") as errors:
        request.write(stdin.encode())
        request.seek(0)
        try:
            child = spawn(
                python_command(*words, python=python),
                environment=environment,
                mark=f"{MARK}={mark}",
                directory=Path("/"),
                stdin=request,
                stdout=answer,
                stderr=errors,
            )
        except OSError as error:
            how = f"does not start on {host}: {error.strerror}"
            raise StageError(_without_tarmac(element, what, how, environment)) from error
        process = watch(child)
        code, _ = supervise(process, inbox, timeout_s=timeout_s, grace_s=element.grace_s)
        if process.stopped_for:
            return _read(answer), code, process.stopped_for
        error_line = last_line(_read(errors).decode(errors="replace"))
        if code and _LACKS_TARMAC in error_line and _is_pod(environment):
            raise StageError(_without_tarmac(element, what, "has no Tarmac", environment))
        return _read(answer), code, error_line


def _interpreter(named: str) -> str | None:
    """Return the path of an interpreter from its path or its name in PATH; None if missing."""
    if "/" in named:
        return named if Path(named).exists() else None
    import shutil  # noqa: PLC0415 - slows the start of others

    return shutil.which(named)


def _without_tarmac(
    element: AttemptSpec, what: str, how: str, environment: Mapping[str, str]
) -> str:
    if _is_pod(environment):
        return (
            f"the image's interpreter {element.python} {how}, and this task {what}. Take an image "
            "with Tarmac in it, for object stores with its extra `objects`; "
            "options.kubernetes.python names the Python that has it"
        )
    return (
        f"Tarmac's interpreter {element.python} {how}, and this task {what}. Install Tarmac in a "
        "directory that the nodes see; tarmac check --on slurm says which nodes see it"
    )


def _is_pod(environment: Mapping[str, str]) -> bool:
    return "TARMAC_KUBERNETES_JOB" in environment


def _understand(answer: bytes, code: int, reason: str) -> Staged:
    try:
        values: dict[str, Any] = json.loads(answer)
        error = values.pop("error", None)
        staged = Staged(**values)
    except (ValueError, TypeError, AttributeError, RecursionError):
        code = code or 1
        error = None
        staged = Staged()
    if error:
        raise StageError(str(error))
    if code:
        raise StageError(f"staging ended with exit code {code}{f': {reason}' if reason else ''}")
    return staged


def _memory(name: str) -> IO[bytes]:
    """Open a file in memory, because the node's disk may be full."""
    return os.fdopen(os.memfd_create(f"tarmac-{name}"), "w+b")


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
