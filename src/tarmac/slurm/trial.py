"""A Slurm for as long as a command or a shell runs, to try things on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.files import scratch_directory
from tarmac.slurm.one_machine import NODES, OneMachineSlurm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


def try_slurm(
    command: Sequence[str] = (), *, accounting: bool = False, say: Callable[[str], None] = print
) -> int:
    """Start a `OneMachineSlurm`, run a command in its sight, and end all of it.

    Args:
        command: A program and its arguments; by default the user's shell.
        accounting: Whether the Slurm keeps accounts.
        say: Is told what is there, and that it ends.

    Returns:
        The exit code of the command; 128 and its number where a signal ended it.

    Raises:
        RequestError: Slurm is not installed, or this user may not start it; or there is no such
            command.
        TarmacError: It does not start.
    """
    words = list(command) or [os.environ.get("SHELL") or "/bin/sh"]
    with scratch_directory() as place:
        cluster = OneMachineSlurm(place, accounting=accounting)
        with cluster:
            say(
                f"A Slurm with the nodes {' and '.join(NODES)}, two pretended GPUs each, runs in "
                f"{place}."
            )
            if not command:
                say("Try: sinfo; tarmac run --on slurm --fake-gpus 2 job.yaml. It ends with exit.")
            try:
                code = _run(words, os.environ | dict(cluster.variables))
            except OSError as error:
                raise RequestError(f"{words[0]} cannot be started: {error.strerror}") from None
            say("The Slurm ends, with all of its jobs.")
    return code if code >= 0 else 128 - code


def _run(words: Sequence[str], environment: dict[str, str]) -> int:
    """Run a program; Ctrl-C reaches it from the terminal, and SIGTERM is passed on."""
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
        # It may have come while the program was started.
        if received:
            program.terminate()
        return program.wait()


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing; unlike SIG_IGN, a program that is started does not inherit that."""


@contextlib.contextmanager
def _handled(handlers: Mapping[signal.Signals, Callable[[int, object], None]]) -> Iterator[None]:
    old = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
