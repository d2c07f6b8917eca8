"""Runs a probe in a process of its own, and comes back whatever that process does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections import deque
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import psutil

from tarmac.checks.evidence import Outcome, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tarmac.checks.targets import Place

__all__ = ["PROBES", "measuring_turns", "run_probe"]

PROBES = Path(__file__).parent / "probes"

# Enough of what it printed to find an error's text in, whatever came before.
_KEPT_BYTES = 65536
_SHOWN_CHARACTERS = 4000
_CHUNK_BYTES = 65536
_LOOK_EVERY_S = 0.2

# Exit codes above are a signal's number and this one.
_BY_SIGNAL = 128

_MARK = "TARMAC_PROBE"
_TURN = "TARMAC_PROBE_TURN"

# A probe ends by itself a little after its limit, should nobody be left to end it.
_LIMIT = "TARMAC_PROBE_LIMIT_S"


def run_probe(
    framework: str,
    place: Place,
    *,
    depth: str,
    devices: Sequence[str] = (),
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    gpus_of: Callable[[int], set[int]] = lambda _: set(),
    stop: threading.Event | None = None,
    program: Path | None = None,
) -> Probe:
    """Run a framework's probe and return what it said.

    The process and all that it started are gone afterwards, also those that left its session.

    Args:
        framework: Which.
        place: Where.
        depth: ``quick``, ``normal`` or ``deep``.
        devices: Names of those to probe, ``cuda:0`` or ``cpu``, all by default; or what else the
            probe takes.
        timeout_s: Its time limit, in seconds.
        environment: Variables on top of this process's.
        gpus_of: Tells on which GPUs the driver sees a process, asked now and then.
        stop: When set, the probe is ended.
        program: Instead of the framework's own probe; for tests.
    """
    program = program or PROBES / f"{framework}_probe.py"
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="tarmac-probe-") as directory:
        result = Path(directory) / "result" / "result.json"
        result.parent.mkdir()
        # Probes import what they share from the folder that they are in.
        own = {_MARK: mark, _LIMIT: f"{timeout_s:g}", "PYTHONSAFEPATH": ""}
        variables = {**(environment or {}), **own}
        if place.image is None:
            command = [*place.command, str(program), str(result), depth, *devices]
        else:
            # The image's user may be another, and writes the result there; other users of this
            # machine do not get through the directory above, which is this user's alone.
            result.parent.chmod(0o777)
            command = _in_container(
                place,
                program,
                result,
                arguments=[depth, *devices],
                mark=mark,
                variables=variables,
            )
        started = time.perf_counter()
        with _process(command, variables) as process:
            printed = _Printed(process.stdout)
            seen: set[int] = set()
            outcome, detail = _wait(process, timeout_s, lambda pid: seen.update(gpus_of(pid)), stop)
            if place.image is not None and outcome == "hung":
                _end_container(place, mark)
            left_behind = _end_all(process.pid, mark)
            printed.thread.join(timeout=5)
        seconds = time.perf_counter() - started
        written, problem = _read(result)
    text = printed.text
    if outcome == "done" and place.image is not None and process.returncode > _BY_SIGNAL:
        # How an engine passes on that its program was ended by a signal.
        outcome, detail = "crashed", _signal(process.returncode - _BY_SIGNAL)
    if outcome == "done":
        words = _last_words(text) if problem else ""
        outcome, detail = _judge(written, problem, process.returncode, words)
    elif written.get("stage"):
        detail = f"{detail}, during {written['stage']}"
    return Probe(
        framework=framework,
        where=place.name,
        outcome=outcome,
        detail=detail,
        seconds=seconds,
        result=written,
        printed=text[-_SHOWN_CHARACTERS:],
        printed_bytes=printed.num_bytes,
        left_behind=left_behind,
        seen_on_gpus=tuple(sorted(seen)),
    )


def _in_container(
    place: Place,
    program: Path,
    result: Path,
    *,
    arguments: Sequence[str],
    mark: str,
    variables: Mapping[str, str],
) -> list[str]:
    """Return the command line that runs a probe in a fresh container of an image."""
    assert place.image is not None
    # Asking for GPUs where there are none is an error of the engine's.
    gpus = ["--gpus", "all"] if Path("/dev/nvidiactl").exists() else []
    # The turns' file is not in there.
    passed = {k: v for k, v in variables.items() if k != _TURN}
    return [
        *place.command,
        *("run", "--rm", "--network", "none", "--name", f"tarmac-{mark}", *gpus),
        *("--volume", f"{program.parent}:/tarmac/probes:ro"),
        *("--volume", f"{result.parent}:/tarmac/result"),
        *(part for name, value in passed.items() for part in ("--env", f"{name}={value}")),
        *("--entrypoint", "python3", place.image),
        *(f"/tarmac/probes/{program.name}", f"/tarmac/result/{result.name}", *arguments),
    ]


def _end_container(place: Place, mark: str) -> None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [*place.command, "kill", f"tarmac-{mark}"],
            capture_output=True,
            timeout=30,
            check=False,
        )


@contextlib.contextmanager
def _process(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


class _Printed:
    """Reads all that comes, in a thread, and keeps the last of it.

    Attributes:
        thread: Ends with the stream.
        num_bytes: All that came.
    """

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self._stream = stream
        self._kept: deque[bytes] = deque()
        self.num_bytes = 0
        self.thread = threading.Thread(target=self._read, name="tarmac-probe-output", daemon=True)
        self.thread.start()

    @property
    def text(self) -> str:
        """The last that came."""
        return b"".join(self._kept).decode(errors="replace")

    def _read(self) -> None:
        size = 0
        with contextlib.suppress(OSError, ValueError):
            while chunk := os.read(self._stream.fileno(), _CHUNK_BYTES):
                self._kept.append(chunk)
                self.num_bytes += len(chunk)
                size += len(chunk)
                while size - len(self._kept[0]) >= _KEPT_BYTES:
                    size -= len(self._kept.popleft())


def _wait(
    process: subprocess.Popen[bytes],
    timeout_s: float,
    look: Callable[[int], None],
    stop: threading.Event | None,
) -> tuple[Outcome, str]:
    """Wait for the end, and look at the process now and then."""
    end = time.monotonic() + timeout_s
    while True:
        left_s = end - time.monotonic()
        try:
            code = process.wait(max(0.0, min(left_s, _LOOK_EVERY_S)))
        except subprocess.TimeoutExpired:
            if stop is not None and stop.is_set():
                return "hung", "the user's patience"
            if left_s <= 0:
                return "hung", f"its limit of {timeout_s:g} s"
            look(process.pid)
        else:
            return ("crashed", _signal(-code)) if code < 0 else ("done", "")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _end_all(leader: int, mark: str) -> int:
    """Kill what is left of a probe: its process group, and others that carry its mark."""
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != leader and process.environ().get(_MARK) == mark:
                left.append(process)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=5)
    return len(left)


def _read(path: Path) -> tuple[dict[str, Any], str]:
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return {}, "it wrote no result"
    except ValueError:
        return {}, "its result is no JSON"
    if not isinstance(written, dict):
        return {}, "its result is no JSON object"
    return (written, "") if _is_result(written) else ({}, "its result is not of a probe's form")


def _is_result(written: dict[str, Any]) -> bool:
    """Whether what is read further on has the types that a probe gives it."""
    devices = written.get("devices", [])
    return (
        isinstance(devices, list)
        and all(
            isinstance(device, dict) and {"name", "kind"} <= device.keys() for device in devices
        )
        and isinstance(written.get("notes", []), list)
        and all(
            isinstance(written.get(key) or {}, dict) for key in ("error", "build", "all_reduce")
        )
    )


def _last_words(printed: str) -> str:
    """Return the line that most likely says why there is no result."""
    lines = [line.strip() for line in printed.splitlines()]
    errors = [line for line in lines if "rror" in line]
    said = (errors or [line for line in lines if line] or [""])[-1]
    return f": {said[:300]}" if said else ""


def _judge(written: Mapping[str, Any], problem: str, code: int, words: str) -> tuple[Outcome, str]:
    stage, error = written.get("stage"), written.get("error")
    together = written.get("all_reduce") or {}
    if problem:
        return "no result", f"{problem} and ended with exit code {code}{words}"
    if written.get("absent"):
        return "not installed", ""
    if together.get("problem") == "hung":
        return "hung", str(together["detail"])
    if error is None:
        is_whole = stage == "done"
        return ("done", "") if is_whole else ("no result", f"it ended during {stage}")
    first = (str(error.get("message", "")).strip().splitlines() or [""])[0]
    during = "" if stage == "import" else f" during {stage}"
    return "failed", f"{error.get('type')}{during}: {first}"


@contextlib.contextmanager
def measuring_turns() -> Iterator[dict[str, str]]:
    """Yield variables by which probes that run together measure one after another."""
    with tempfile.NamedTemporaryFile(prefix="tarmac-turn-") as file:
        yield {_TURN: file.name}
