"""A temporary Slurm cluster for trials, which ends with a command or a shell."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence

from tarmac.errors import RequestError
from tarmac.files import scratch_directory
from tarmac.testing.slurm.one_machine import NODES, OneMachineSlurm


def try_slurm(
    command: Sequence[str] = (), *, accounting: bool = False, say: Callable[[str], None] = print
) -> int:
    """Start a `OneMachineSlurm`, run a command with its environment, and end the cluster.

    Args:
        command: Program and its arguments. Default: the user's shell.
        accounting: Whether the Slurm keeps accounts.
        say: Called with each message for the user. Default: `print`.

    Returns:
        The exit code of the command; 128 plus the signal's number where a signal ended it.

    Raises:
        RequestError: Slurm is not installed, this user may not start it, or the command does not
            exist.
        TarmacError: The cluster does not start.
    """
    words = list(command) or [os.environ.get("SHELL") or "/bin/sh"]
    with scratch_directory() as place:
        cluster = OneMachineSlurm(place, accounting=accounting)
        with cluster:
            say(
                f"A Slurm with the nodes {' and '.join(NODES)}, each with two fake GPUs, runs in "
                f"{place}."
            )
            if not command:
                say("Try: sinfo; tarmac run --on slurm --fake-gpus 2 job.yaml. To stop it: exit.")
            try:
                code = _run(words, os.environ | dict(cluster.variables))
            except OSError as error:
                raise RequestError(f"cannot start {words[0]}: {error.strerror}") from None
            say("Stopping the Slurm and all its jobs.")
    return code if code >= 0 else 128 - code


def _run(words: Sequence[str], environment: dict[str, str]) -> int:
    """Run a program and forward SIGTERM; Ctrl-C reaches the program from the terminal."""
    programs: list[subprocess.Popen[bytes]] = []
    received: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        received.append(number)
        for program in programs:
            program.terminate()

    with (
        _handled({signal.SIGINT: _ignore, signal.SIGTERM: pass_on}),
        subprocess.Popen(words, env=environment) as program,
    ):
        programs.append(program)
        # SIGTERM may have come while the program was starting.
        if received:
            program.terminate()
        return program.wait()


def _ignore(_number: int, _frame: object) -> None:
    """Ignore a signal; unlike SIG_IGN, a started program does not inherit this handler."""


@contextlib.contextmanager
def _handled(handlers: Mapping[signal.Signals, Callable[[int, object], None]]) -> Iterator[None]:
    old = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
