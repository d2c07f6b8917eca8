"""Runs a probe in its own process, and always returns, whatever that process does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.checks.evidence import Outcome, Probe
from tarmac.checks.frameworks import PROBES, Framework
from tarmac.checks.probe_result import judge_result, last_error, read_result
from tarmac.files import scratch_directory
from tarmac.processes import Child, OutputTail, guarded, kill_tree, spawn

if TYPE_CHECKING:
    from tarmac.checks.targets import Target

# Enough of the printed output to contain an error's text, whatever was printed before it.
_KEPT_BYTES = 65536
_SHOWN_CHARACTERS = 4000
_LOOK_EVERY_S = 0.2

# A container engine's exit code after a signal is this number plus the signal's.
_BY_SIGNAL = 128

# Exit code of `docker run` and `podman run` where the engine itself failed and started nothing.
_ENGINE_FAILED = 125

_MARK = "TARMAC_PROBE"
_TURN, _WORK = "TARMAC_PROBE_TURN", "TARMAC_PROBE_WORK"

# A probe exits by itself a little after its limit, in case its parent process is gone.
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
    """Run a framework's probe and return its outcome and result.

    Afterwards the process and all its descendants are gone, also those that left its session. If
    this process is killed, a guardian ends them.

    Args:
        framework: Framework whose probe is run.
        target: Interpreter or container image to run it in.
        depth: ``quick``, ``normal`` or ``deep``.
        devices: Names of the devices to probe, such as ``cuda:0`` or ``cpu``. Default: all.
        timeout_s: Time limit of the probe, in seconds, without its waits for other probes.
        environment: Environment variables to add to this process's.
        gpus_of: Returns the indices of the GPUs on which the driver sees a process; called every
            0.2 s.
        stop: When set, the probe is ended.
        num_ranks: Number of processes of a probe with several. Default: the probe's choice.
        watch: Called every 0.2 s with the result that the probe has written so far.
    """
    mark = uuid.uuid4().hex
    engines = () if target.image is None else target.command
    with scratch_directory() as directory, guarded(mark, engines, variable=_MARK):
        result = directory / "result" / "result.json"
        result.parent.mkdir()
        program = _beside_harness(framework.program, directory)
        # Probes import `harness` from their own folder.
        own = {_LIMIT: f"{timeout_s:g}", "PYTHONSAFEPATH": ""}
        if num_ranks is not None:
            own[_RANKS] = str(num_ranks)
        variables = {**(environment or {}), **own}
        if target.image is None:
            command = [*target.command, str(program), str(result), depth, *devices]
        else:
            # The image's user may be another one, and writes the result there. Other users of this
            # machine cannot enter the directory above, which is this user's alone.
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

            def look(pid: int) -> bool:
                seen.update(gpus_of(pid))
                written = read_result(result)[0]
                if watch is not None:
                    watch(written)
                return bool(written.get("is_waiting"))

            problem = _wait(child, timeout_s, look, stop)
        finally:
            # A container outlives its client. One that is still being created needs the second
            # removal, after its client is gone.
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
    """Return a probe's file in a folder that also has the harness.

    Args:
        program: File of a probe, Tarmac's own or that of an installed package.
        directory: Directory for a copy of another package's probe.
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
    # The engine fails where GPUs are asked for and none exist.
    gpus = ["--gpus", "all"] if Path("/dev/nvidiactl").exists() else []
    # The turns' lock files do not exist in the container.
    passed = {k: v for k, v in variables.items() if k not in (_TURN, _WORK)}
    return [
        *target.command,
        *("run", "--rm", "--network", "none", "--name", f"tarmac-{mark}", *gpus),
        *("--label", f"tarmac.run={mark}"),
        *("--volume", f"{program.parent}:/tarmac/probes:ro"),
        *("--volume", f"{result.parent}:/tarmac/result"),
        *(part for name, value in passed.items() for part in ("--env", f"{name}={value}")),
        *("--entrypoint", "python3", target.image),
        *(f"/tarmac/probes/{program.name}", f"/tarmac/result/{result.name}", *arguments),
    ]


def _remove_container(target: Target, mark: str) -> None:
    """End and remove a container in any state; ignore one that does not exist."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [*target.command, "rm", "--force", f"tarmac-{mark}"],
            capture_output=True,
            timeout=30,
            check=False,
        )


def _wait(
    child: Child, timeout_s: float, look: Callable[[int], bool], stop: threading.Event | None
) -> str:
    """Wait for the end and poll the process meanwhile; return why the wait was given up, or ``""``.

    Args:
        child: Process of the probe.
        timeout_s: Time limit, in seconds.
        look: Called with the process's number every 0.2 s; returns whether it waits for another
            probe, which does not count.
        stop: When set, the wait ends.
    """
    left_s, looked = timeout_s, time.monotonic()
    while not child.wait(max(0.0, min(left_s, _LOOK_EVERY_S))):
        if stop is not None and stop.is_set():
            return "the user's patience"
        is_waiting, before = look(child.popen.pid), looked
        looked = time.monotonic()
        left_s -= 0.0 if is_waiting else looked - before
        if left_s <= 0:
            return f"its limit of {timeout_s:g} s"
    return ""


def _end(code: int, problem: str, *, in_container: bool) -> tuple[Outcome, str]:
    """Return a probe's outcome and its detail, from the end of its process alone."""
    if problem:
        return "hung", problem
    if code < 0:
        return "crashed", _signal(-code)
    # An engine's exit code for a program that a signal has ended.
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
    """Yield environment variables that make parallel probes measure one after another."""
    with scratch_directory() as directory:
        files = {_TURN: directory / "turn", _WORK: directory / "work"}
        for file in files.values():
            file.touch()
        yield {name: str(file) for name, file in files.items()}


def is_measuring(turns: Mapping[str, str]) -> bool:
    """Return whether a probe has its turn now.

    Args:
        turns: Environment variables of the probes, from `measuring_turns`.
    """
    with Path(turns[_TURN]).open() as file:
        try:
            # Shared and released at once: it does not delay a probe that waits for its turn.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
