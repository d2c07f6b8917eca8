"""What watching costs: `tarmac top` once, and for minutes, against nvitop and gpustat.

    python bench/top.py [--starts 10] [--seconds 60] [--peers DIRECTORY]

Eight GPUs of the tests' stand-in for NVIDIA's library compute for 20 runs. Each run is a copy of a
real training's directory, held by a process that adds to its metrics as a training does. How long a
driver takes to answer is not in the figures; nor is how long a terminal draws. The peers are
installed into DIRECTORY, by default a new one, from `peers/requirements-top.txt`. A C compiler is
needed, and PyTorch for the one training.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import json
import os
import pty
import resource
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _harness import TARMAC, Spread, table, write_results

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BENCH = Path(__file__).parent
CHECKS = BENCH.parent / "tests" / "checks"

NUM_GPUS = 8
NUM_RUNS = 20
COLUMNS, ROWS = 120, 40

ONCE_GOAL_S = 0.3
CPU_GOAL = 0.02

# The first seconds are those of the start.
SETTLE_S = 10.0

# What a run's process does: it holds the run, and writes an epoch every five seconds.
HOLDER = """
import fcntl, json, os, pathlib, sys, time
run = pathlib.Path(sys.argv[1])
record = json.loads((run / "run.json").read_text())
record |= {"status": "running", "ended_at": None}
record["configuration"]["epochs"] = 1000
record["sessions"][-1]["pid"] = os.getpid()
(run / "run.json").write_text(json.dumps(record))
lock = open(run / ".lock", "a")
fcntl.flock(lock, fcntl.LOCK_EX)
row = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
print("held", flush=True)
while True:
    time.sleep(5)
    row["epoch"] += 1
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps(row) + "\\n")
"""


@dataclasses.dataclass(frozen=True)
class Watched:
    """A program that watched for a while.

    Attributes:
        cpu_share: Of one core, once it had settled.
        rss_bytes: At the end.
    """

    cpu_share: float
    rss_bytes: int


@contextlib.contextmanager
def runs_at_work(directory: Path) -> Iterator[list[int]]:
    """Train once, copy the run, and yield the processes that hold the copies."""
    command = [*TARMAC, "train", "digits-mlp", "--epochs", "3", "--output", directory / "one"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (done,) = (path.parent for path in (directory / "one").glob("*/run.json"))
    with contextlib.ExitStack() as ends:
        holders = []
        for number in range(NUM_RUNS):
            run = directory / "runs" / f"{done.name[:-2]}{number:02d}"
            shutil.copytree(done, run)
            holder = subprocess.Popen(
                [sys.executable, "-S", "-c", HOLDER, run], stdout=subprocess.PIPE, text=True
            )
            ends.callback(holder.wait)
            ends.callback(holder.kill)
            holders.append(holder)
        for holder in holders:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
        yield [holder.pid for holder in holders]


def write_machine(directory: Path, pids: Sequence[int]) -> Mapping[str, str]:
    """Build the stand-in and a machine whose GPUs compute; return the variables that show it."""
    library = directory / "libnvidia-ml.so.1"
    source = CHECKS / "nvml_stand_in.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    one = (CHECKS / "machines" / "healthy.txt").read_text().splitlines()
    lines = [line for line in one if not line.startswith(("0.", "count"))]
    lines.append(f"count {NUM_GPUS}")
    for gpu in range(NUM_GPUS):
        own = pids[gpu::NUM_GPUS]
        busy = {
            "uuid": f"GPU-{gpu}d3c132a-675f-077e-3bf7-99d79213d062",
            "address": f"00000000:{0x19 + gpu:02X}:00.0",
            "utilization": "97 40 | 3000ms 92 38 | 6000ms 99 41 | repeat 9000ms",
            "slowdowns": "0x4",
            "clock": "1980",
            "field.186": "650000 | 2000ms 690000 | repeat 4000ms",
            "field.83": f"{gpu}000000 +650000/s",
            "field.74": "0 +90000000/s",
            "field.75": "0",
            "field.142": "0",
            "field.143": "0",
            "tensor": "71",
            "pstate": "0",
            "encoder": "0",
            "decoder": "0",
            "process": ", ".join(f"{pid} 20000000000" for pid in own),
            "shares": ", ".join(f"{pid} {90 // len(own)}" for pid in own),
        }
        known = dict(line[2:].split(" ", 1) for line in one if line.startswith("0."))
        lines += [f"{gpu}.{key} {value}" for key, value in {**known, **busy}.items()]
    machine = directory / "machine.txt"
    machine.write_text("\n".join(lines) + "\n")
    return {"LD_LIBRARY_PATH": str(directory), "NVML_STAND_IN": str(machine)}


def install_peers(directory: Path) -> None:
    """Install nvitop and gpustat into an environment of their own, unless they are there."""
    if (directory / "bin" / "nvitop").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    requirements = BENCH / "peers" / "requirements-top.txt"
    command = [directory / "bin" / "pip", "install", "-q", "-r", requirements]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def time_starts(
    commands: Mapping[str, Sequence[str]], environment: Mapping[str, str], starts: int
) -> dict[str, dict[str, Any]]:
    """Run each program to its end, by turns; return seconds and peaks of memory."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    peaks: dict[str, list[int]] = {name: [] for name in commands}
    # The first of each fills the caches.
    for turn in range(starts + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            assert process.stdout is not None
            picture = process.stdout.read().decode()
            _, status, usage = os.wait4(process.pid, 0)
            elapsed = time.perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0 or "H200" not in picture:
                raise RuntimeError(f"{name} drew no GPUs:\n{picture[-2000:]}")
            if turn:
                seconds[name].append(elapsed)
                cpu[name].append(usage.ru_utime + usage.ru_stime)
                peaks[name].append(usage.ru_maxrss * 1024)
    return {
        name: {"seconds": seconds[name], "cpu_s": cpu[name], "peak_bytes": max(peaks[name])}
        for name in commands
    }


def watch(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> Watched:
    """Run a program in a terminal for a while, and return what it cost once it had settled.

    Raises:
        RuntimeError: It ended by itself.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, dict(environment))
    is_over = threading.Event()
    drawn = bytearray()
    reader = threading.Thread(target=_drain, args=(terminal, is_over, drawn))
    _resize(terminal)
    reader.start()
    try:
        time.sleep(SETTLE_S)
        before, started = _cpu_s(pid), time.perf_counter()
        time.sleep(seconds)
        cpu_share = (_cpu_s(pid) - before) / (time.perf_counter() - started)
        rss_bytes = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError as error:
        text = bytes(drawn[-2000:]).decode(errors="replace")
        raise RuntimeError(f"{' '.join(command)} ended by itself:\n{text}") from error
    finally:
        os.kill(pid, signal.SIGKILL)
        is_over.set()
        reader.join()
        os.waitpid(pid, 0)
        os.close(terminal)
    if not drawn or not rss_bytes:
        raise RuntimeError(f"{' '.join(command)} drew nothing, or ended by itself")
    return Watched(cpu_share, rss_bytes)


def _resize(terminal: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))


def _drain(terminal: int, is_over: threading.Event, drawn: bytearray) -> None:
    while not is_over.is_set():
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                drawn += os.read(terminal, 65536)
            except OSError:
                return


def _cpu_s(pid: int) -> float:
    """Return the seconds that a process has computed, without what it has started."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def time_reading(environment: Mapping[str, str]) -> dict[str, float]:
    """Return the seconds that reading all GPUs, and the host, computes each time."""
    program = (
        "import json, time\n"
        "from tarmac.machine import HostReader, open_live_reader\n"
        "gpus, host = open_live_reader(), HostReader()\n"
        "found = {}\n"
        "for name, read in (('gpus', gpus.read), ('xids', gpus.new_xids), ('host', host.read)):\n"
        "    read()\n"
        "    began = time.process_time()\n"
        "    for _ in range(100):\n"
        "        read()\n"
        "        time.sleep(0.05)\n"
        "    found[name] = (time.process_time() - began) / 100\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--peers", type=Path, help="where nvitop and gpustat are, or will be")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, runs_at_work(Path(name)) as pids:
        directory = Path(name)
        peers = options.peers or directory / "peers"
        install_peers(peers)
        plain = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        environment = {
            **plain,
            **write_machine(directory, pids),
            "PYTHONPATH": str(BENCH.parent / "src"),
            "TERM": "xterm-256color",
        }
        runs = ("--output", str(directory / "runs"))
        nvitop, gpustat = str(peers / "bin" / "nvitop"), str(peers / "bin" / "gpustat")
        started = time_starts(
            {
                "tarmac top --once": (*TARMAC, "top", "--once", *runs),
                "tarmac top --json": (*TARMAC, "top", "--json", *runs),
                "nvitop -1": (nvitop, "-1"),
                "gpustat": (gpustat, "--show-full-cmd", "--show-user"),
            },
            environment,
            options.starts,
        )
        watched = {
            label: watch(command, environment, options.seconds)
            for label, command in {
                "tarmac top": (*TARMAC, "top", *runs),
                "tarmac top --json --watch 1": (*TARMAC, "top", "--json", "--watch", "1", *runs),
                "nvitop --interval 1": (nvitop, "--monitor", "full", "--interval", "1"),
                "gpustat -i 1": (gpustat, "-i", "1"),
            }.items()
        }
        reading = time_reading(environment)
    write_results(
        "top",
        {
            "once": started,
            "watched": {label: dataclasses.asdict(found) for label, found in watched.items()},
            "reading_s": reading,
        },
        _page(started, watched, reading, options.seconds),
    )


def _page(
    started: Mapping[str, Mapping[str, Any]],
    watched: Mapping[str, Watched],
    reading: Mapping[str, float],
    seconds: float,
) -> str:
    once = [
        [
            f"`{name}`",
            Spread.of(found["seconds"]).show(3),
            f"{statistics.median(found['cpu_s']):.3f}",
            f"{found['peak_bytes'] / 2**20:.0f}",
        ]
        for name, found in started.items()
    ]
    lasting = [
        [f"`{name}`", f"{found.cpu_share:.2%}", f"{found.rss_bytes / 2**20:.0f}"]
        for name, found in watched.items()
    ]
    starts = len(next(iter(started.values()))["seconds"])
    costs = ", ".join(f"{name} {cost * 1e3:.2f} ms" for name, cost in reading.items())
    return (
        f"{NUM_GPUS} GPUs, {NUM_RUNS} runs at work, each with a process on a GPU; the driver is "
        "the tests' stand-in. Peers draw no runs.\n\n"
        "## From the start to the picture\n\n"
        + table(["program", "s", "CPU s", "peak MiB"], once)
        + f"\n\nMedian (lowest to highest) of {starts} starts by turns; "
        f"the aim for `tarmac top --once` is {ONCE_GOAL_S} s.\n\n"
        f"## Watching, a picture a second, {COLUMNS}x{ROWS}\n\n"
        + table(["program", "of a core", "MiB"], lasting)
        + f"\n\nOver {seconds:.0f} s after the first {SETTLE_S:.0f}; the aim for `tarmac top` is "
        f"below {CPU_GOAL:.0%}.\n\nReading alone computes each time: {costs}."
    )


if __name__ == "__main__":
    main()
