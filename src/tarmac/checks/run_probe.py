"""Runs a probe in a process of its own, and comes back whatever that process does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.checks.evidence import Outcome, Probe
from tarmac.checks.frameworks import PROBES
from tarmac.checks.probe_result import judge_result, last_error, read_result
from tarmac.files import scratch_directory
from tarmac.processes import OutputTail, kill_tree, spawn

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tarmac.checks.frameworks import Framework
    from tarmac.checks.targets import Target
    from tarmac.processes import Child

# Enough of what it printed to find an error's text in, whatever came before.
_KEPT_BYTES = 65536
_SHOWN_CHARACTERS = 4000
_LOOK_EVERY_S = 0.2

# Exit codes above are a signal's number and this one.
_BY_SIGNAL = 128

# Of `docker run` and `podman run`, where the engine itself failed and started nothing.
_ENGINE_FAILED = 125

_MARK = "TARMAC_PROBE"
_TURN = "TARMAC_PROBE_TURN"

# A probe ends by itself a little after its limit, should nobody be left to end it.
_LIMIT = "TARMAC_PROBE_LIMIT_S"
_RANKS = "TARMAC_PROBE_RANKS"


def run_probe(
    framework: Framework,
    target: Target,
    *,
    depth: str,
    devices: Sequence[str] = (),
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    gpus_of: Callable[[int], set[int]] = lambda _: set(),
    stop: threading.Event | None = None,
    num_ranks: int | None = None,
    watch: Callable[[Mapping[str, Any]], None] | None = None,
) -> Probe:
    """Run a framework's probe and return what it said.

    The process and all that it started are gone afterwards, also those that left its session.

    Args:
        framework: The one whose probe is run.
        target: The interpreter or image that it runs in.
        depth: ``quick``, ``normal`` or ``deep``.
        devices: Names of those to probe, ``cuda:0`` or ``cpu``, all by default.
        timeout_s: Its time limit, in seconds.
        environment: Variables on top of this process's.
        gpus_of: Tells on which GPUs the driver sees a process, asked now and then.
        stop: When set, the probe is ended.
        num_ranks: Processes of a probe that computes by several; by default the probe's choice.
        watch: Is given now and then what the probe has written so far.
    """
    mark = uuid.uuid4().hex
    with scratch_directory() as directory:
        result = directory / "result" / "result.json"
        result.parent.mkdir()
        program = _beside_harness(framework.program, directory)
        # Probes import what they share from the folder that they are in.
        own = {_LIMIT: f"{timeout_s:g}", "PYTHONSAFEPATH": ""}
        if num_ranks is not None:
            own[_RANKS] = str(num_ranks)
        variables = {**(environment or {}), **own}
        if target.image is None:
            command = [*target.command, str(program), str(result), depth, *devices]
        else:
            # The image's user may be another, and writes the result there; other users of this
            # machine do not get through the directory above, which is this user's alone.
            result.parent.chmod(0o777)
            command = _in_container(
                target,
                program,
                result,
                arguments=[depth, *devices],
                mark=mark,
                variables=variables,
            )
        started = time.perf_counter()
        try:
            child = spawn(
                command,
                environment={**os.environ, **target.variables, **variables},
                mark=f"{_MARK}={mark}",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            detail = f"{command[0]}: {error.strerror}"
            return Probe(
                framework=framework.name, where=target.name, outcome="not started", detail=detail
            )
        try:
            printed = OutputTail(child.popen.stdout, _KEPT_BYTES)
            seen: set[int] = set()

            def look(pid: int) -> None:
                seen.update(gpus_of(pid))
                if watch is not None:
                    watch(read_result(result)[0])

            problem = _wait(child, timeout_s, look, stop)
        finally:
            # A container does not end with its client, nor is one killed that was only just made.
            is_cut_short = target.image is not None and not child.has_ended()
            if is_cut_short:
                _remove_container(target, mark)
            left_behind = kill_tree(child)
            if is_cut_short:
                _remove_container(target, mark)
            code = child.finish()
        text = printed.text(timeout_s=5.0)
        seconds = time.perf_counter() - started
        written, flaw = read_result(result)
    outcome, detail = _end(code, problem, in_container=target.image is not None)
    if target.image is not None and code == _ENGINE_FAILED and not written:
        outcome, detail = "not started", f"{target.command[0]} failed{last_error(text)}"
    elif outcome == "done":
        words = last_error(text) if flaw else ""
        outcome, detail = judge_result(written, flaw, code, words)
    elif written.get("stage"):
        detail = f"{detail}, during {written['stage']}"
    return Probe(
        framework=framework.name,
        where=target.name,
        outcome=outcome,
        detail=detail,
        seconds=seconds,
        result=written,
        printed=text[-_SHOWN_CHARACTERS:],
        printed_bytes=printed.num_bytes,
        left_behind=left_behind,
        seen_on_gpus=tuple(sorted(seen)),
        image=target.image,
    )


def _beside_harness(program: Path, directory: Path) -> Path:
    """Return a probe's file in a folder that has what probes share.

    Args:
        program: Tarmac's own, which has that beside it, or another's.
        directory: For a copy of another's.
    """
    if program.parent == PROBES:
        return program
    folder = directory / "program"
    folder.mkdir()
    for file in (PROBES / "harness.py", program):
        shutil.copyfile(file, folder / file.name)
    return folder / program.name


def _in_container(
    target: Target,
    program: Path,
    result: Path,
    *,
    arguments: Sequence[str],
    mark: str,
    variables: Mapping[str, str],
) -> list[str]:
    """Return the command line that runs a probe in a fresh container of an image."""
    assert target.image is not None
    # Asking for GPUs where there are none is an error of the engine's.
    gpus = ["--gpus", "all"] if Path("/dev/nvidiactl").exists() else []
    # The turns' file is not in there.
    passed = {k: v for k, v in variables.items() if k != _TURN}
    return [
        *target.command,
        *("run", "--rm", "--network", "none", "--name", f"tarmac-{mark}", *gpus),
        *("--volume", f"{program.parent}:/tarmac/probes:ro"),
        *("--volume", f"{result.parent}:/tarmac/result"),
        *(part for name, value in passed.items() for part in ("--env", f"{name}={value}")),
        *("--entrypoint", "python3", target.image),
        *(f"/tarmac/probes/{program.name}", f"/tarmac/result/{result.name}", *arguments),
    ]


def _remove_container(target: Target, mark: str) -> None:
    """End and remove a container, in whatever state it is; one that is not there is as good."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [*target.command, "rm", "--force", f"tarmac-{mark}"],
            capture_output=True,
            timeout=30,
            check=False,
        )


def _wait(
    child: Child, timeout_s: float, look: Callable[[int], None], stop: threading.Event | None
) -> str:
    """Wait for the end, and look at the process now and then; return why it is not waited for."""
    end = time.monotonic() + timeout_s
    while not child.wait(max(0.0, min(end - time.monotonic(), _LOOK_EVERY_S))):
        if stop is not None and stop.is_set():
            return "the user's patience"
        if time.monotonic() >= end:
            return f"its limit of {timeout_s:g} s"
        look(child.popen.pid)
    return ""


def _end(code: int, problem: str, *, in_container: bool) -> tuple[Outcome, str]:
    """Return how a probe's process ended, as far as that alone tells."""
    if problem:
        return "hung", problem
    if code < 0:
        return "crashed", _signal(-code)
    # How an engine passes on that its program was ended by a signal.
    if in_container and code > _BY_SIGNAL:
        return "crashed", _signal(code - _BY_SIGNAL)
    return "done", ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextlib.contextmanager
def measuring_turns() -> Iterator[dict[str, str]]:
    """Yield variables by which probes that run together measure one after another."""
    with scratch_directory() as directory:
        turn = directory / "turn"
        turn.touch()
        yield {_TURN: str(turn)}


def is_measuring(turns: Mapping[str, str]) -> bool:
    """Tell whether a probe has its turn now.

    Args:
        turns: Variables of the probes, from `measuring_turns`.
    """
    with Path(turns[_TURN]).open() as file:
        try:
            # Shared, and given back at once: a probe that waits for its turn is not kept from it.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
