"""Draws the screens of `tarmac top` from a recording of it: python docs/images/render_top.py.

Two real trainings, a search and a job run on this machine's processors, and a process that is none
of Tarmac's; the tests' stand-in for NVIDIA's library shows them on eight GPUs.
`tarmac top --record` watches them for a minute, and the screen shows that recording at three sizes.
Needs a C compiler, and the extras `search` and `watch`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.monitor import ReplayFeed, ScreenOptions
from tarmac.monitor.screen.app import TopApp

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
CHECKS = HERE.parents[1] / "tests" / "checks"
TARMAC = (sys.executable, "-m", "tarmac")
TRAIN = ("train", "digits-mlp", "--epochs", "4000")

# Which keys are pressed before each picture is taken.
PICTURES = {
    "top-80x24": ((80, 24), ()),
    "top-120x40": ((120, 40), ()),
    "top-200x50": ((200, 50), ("down", "enter")),
}
RECORDED_S = 60
JOB = """
name: nightly
tasks:
  - name: fold
    command: sleep 600
    sweep: {grid: {n: [1, 2, 3, 4]}}
"""
IDLE_AFTER_S = 20.0


def main() -> None:
    """Record, and draw."""
    with tempfile.TemporaryDirectory() as directory:
        recording = Path(directory) / "top.jsonl"
        with contextlib.ExitStack() as ends:
            environment = at_work(Path(directory), ends)
            command = [*TARMAC, "top", "--record", str(recording)]
            command += [
                "--output",
                str(Path(directory) / "runs"),
                "--idle-after",
                f"{IDLE_AFTER_S}",
            ]
            with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as top:
                time.sleep(RECORDED_S)
                top.send_signal(signal.SIGTERM)
        for name, (size, keys) in PICTURES.items():
            asyncio.run(draw(name, recording, size, keys))


def at_work(directory: Path, ends: contextlib.ExitStack) -> dict[str, str]:
    """Start what is watched; return the variables in which its GPUs are seen."""
    runs = directory / "runs"
    trainings = [
        ends.enter_context(started(*TRAIN, *words, "--output", str(runs)))
        for words in (("--batch-size", "64"), ("--batch-size", "128"))
    ]
    search = ends.enter_context(started("search", "mlp-evolve", "--output", str(runs)))
    job = directory / "nightly.yaml"
    job.write_text(JOB)
    ends.enter_context(started("run", str(job), "--output", str(runs)))
    other = ends.enter_context(running("sleep", "600"))
    while len([*runs.glob("digits-mlp-*/metrics.jsonl")]) < len(trainings) or not (
        [*runs.glob("mlp-evolve-*/study.json")] and [*runs.glob("nightly-*/tasks/*")]
    ):
        if any(training.poll() is not None for training in trainings):
            raise RuntimeError("a training has ended")
        time.sleep(0.5)
    library = directory / "libnvidia-ml.so.1"
    source = CHECKS / "nvml_stand_in.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    machine = directory / "machine.txt"
    machine.write_text(machine_of(trainings[0].pid, trainings[1].pid, search.pid, other.pid))
    return os.environ | {"LD_LIBRARY_PATH": str(directory), "NVML_STAND_IN": str(machine)}


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the context ends."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def started(*words: str) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """Run Tarmac until the context ends."""
    return running(*TARMAC, *words)


def machine_of(first: int, second: int, search: int, other: int) -> str:
    """Return eight H200: four of one training, one of another, one of a search, one held, one free.

    Args:
        first: The process of the first training.
        second: Of the second.
        search: Of the search.
        other: Of what holds a GPU and does nothing.
    """
    healthy = (CHECKS / "machines" / "healthy.txt").read_text().splitlines()
    known = dict(line[2:].split(" ", 1) for line in healthy if line.startswith("0."))
    busy = {
        "clock": "1980 | 3000ms 1935 | repeat 5000ms",
        "tensor": "71",
        "pstate": "0",
        "temperature": "61 | 4000ms 63 | repeat 9000ms",
    }
    steady = "97 40 | 3000ms 92 38 | 5000ms 99 41 | repeat 8000ms"
    uneven = "88 40 | 2000ms 31 12 | 3000ms 90 41 | 7000ms 12 4 | repeat 8000ms"
    lines = ["driver 580.126.20", "cuda 13000", "count 8"]
    for gpu in range(8):
        own: dict[str, str] = {"slowdowns": "0x1", "utilization": "0 0", "field.186": "76000"}
        if gpu < 4:
            own = busy | {
                "slowdowns": "0x4" if gpu == 0 else "0x0",
                "utilization": steady,
                "field.186": "655000 | 2000ms 690000 | repeat 4000ms",
                "used": "61300000000",
                "process": f"{first} 61000000000",
                "shares": f"{first} 95",
            }
        elif gpu == 4:
            own = busy | {
                "slowdowns": "0x0",
                "utilization": uneven,
                "field.186": "310000 | 2000ms 190000 | repeat 4000ms",
                "used": "12000000000",
                "process": f"{second} 11800000000",
                "shares": f"{second} 55",
            }
        elif gpu == 5:
            own = busy | {
                "slowdowns": "0x0",
                "utilization": "63 20 | 2000ms 71 24 | 3000ms 58 19 | repeat 5000ms",
                "field.186": "402000 | 2000ms 431000 | repeat 4000ms",
                "used": "21000000000",
                "process": f"{search} 20600000000",
                "shares": f"{search} 64",
            }
        elif gpu == 6:
            own |= {"field.186": "119000", "used": "33000000000", "process": f"{other} 32800000000"}
        own |= {
            "uuid": f"GPU-{gpu}d3c132a-675f-077e-3bf7-99d79213d062",
            "address": f"00000000:{0x19 + gpu:02X}:00.0",
        }
        lines += [f"{gpu}.{key} {value}" for key, value in {**known, **own}.items()]
    return "\n".join(lines) + "\n"


async def draw(name: str, recording: Path, size: tuple[int, int], keys: tuple[str, ...]) -> None:
    """Draw the last picture of a recording."""
    app = TopApp(
        ReplayFeed(recording, speed=1000.0), ScreenOptions(readonly=True, idle_after_s=IDLE_AFTER_S)
    )
    async with app.run_test(size=size) as pilot:
        await asyncio.sleep(3.0)
        await pilot.press(*keys)
        await pilot.pause()
        (HERE / f"{name}.svg").write_text(app.export_screenshot(title="tarmac top"))


if __name__ == "__main__":
    main()
