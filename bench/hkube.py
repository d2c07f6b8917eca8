"""Tasks of HKube's algorithms: what a warm one takes, how many a second, the first in a container.

    python bench/hkube.py [--rounds 5] [--tasks 10000] [--warm 500] [--no-containers]

A warm task is one that a started program is given, from the request to the result, for a program
that gives its input back at once (peers/hkube_echo.py). Beside it stand the same messages between
that program and a socket of `websockets` alone. A batch is `tarmac run` of a pipeline of one node,
all of it: processes, journal, results. The first task in a container needs Docker; its image is
empty, and sees this machine's programs through mounts, in both. Alternating, in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _harness import TARMAC, Spread, table, write_results

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tarmac.hkube.hosting import Work

ECHO = Path(__file__).parent / "peers" / "hkube_echo.py"
ENCODINGS = ("json", "msgpack", "bson")
IMAGE = "tarmac-bench-empty"


class Silent:
    """A watcher that passes over everything."""

    def started(self, *_: Any) -> None:
        """Pass over it."""

    progress = retrying = waiting = started


def definition(*command: str, **more: Any) -> dict[str, Any]:
    """Return an algorithm that a command runs, with a core of its own: a container has no more."""
    return {
        "name": "echo",
        "cpu": 1,
        "mem": "512Mi",
        "options": {"tarmac": {"command": [sys.executable, str(ECHO), *command], **more}},
    }


@contextlib.asynccontextmanager
async def host(algorithm: dict[str, Any]) -> Any:
    """Host an algorithm in a directory of its own; gives what submits a task."""
    from tarmac.formats import read_algorithm
    from tarmac.hkube.hosting import Pool

    with tempfile.TemporaryDirectory() as name:
        algorithms = {"echo": read_algorithm(algorithm)}
        pool = Pool(algorithms, Path(name), base=Path(name), watcher=Silent(), calls=None)
        async with pool:
            yield pool


def work(index: int) -> Work:
    """Return a task."""
    from tarmac.hkube.hosting import Work

    return Work(
        index=index,
        name=f"echo[{index}]",
        task_id=f"task-{index}",
        algorithm="echo",
        input=[index],
        job_id="job",
        pipeline="bench",
        node="echo",
    )


async def warm_ms(encoding: str, count: int) -> list[float]:
    """Return milliseconds of each task of a program that has done one already."""
    found = []
    async with host(definition(encoding)) as pool:
        for index in range(count + 1):
            started = time.perf_counter()
            ending = await pool.submit(work(index))
            assert ending.value == [index], ending
            found.append((time.perf_counter() - started) * 1000)
    return found[1:]


async def messages_ms(encoding: str, count: int) -> list[float]:
    """Return milliseconds of the same messages without Tarmac: what no host can be under."""
    import bson
    import msgpack
    from websockets.asyncio.server import serve

    write, read = {
        "json": (json.dumps, json.loads),
        "msgpack": (msgpack.packb, msgpack.unpackb),
        "bson": (lambda m: bson.encode({"data": m}), lambda b: bson.decode(b)["data"]),
    }[encoding]
    found: list[float] = []
    over = asyncio.Event()

    async def handle(socket: Any) -> None:
        for index in range(count + 1):
            started = time.perf_counter()
            data = {"input": [index], "taskId": f"task-{index}", "jobId": "job"}
            await socket.send(write({"command": "initialize", "data": data}))
            await socket.recv()
            await socket.send(write({"command": "start", "data": {}}))
            await socket.recv()
            assert read(await socket.recv())["data"] == [index]
            found.append((time.perf_counter() - started) * 1000)
        await socket.send(write({"command": "exit", "data": {"exitCode": 0}}))
        over.set()

    async with serve(handle, "127.0.0.1", 0, compression=None) as server:
        host, port = server.sockets[0].getsockname()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(ECHO), encoding),
            env=os.environ | {"WORKER_SOCKET_HOST": host, "WORKER_SOCKET_PORT": str(port)},
        )
        await over.wait()
        await process.wait()
    return found[1:]


def batch(num_tasks: int, instances: int) -> tuple[float, float]:
    """Run a pipeline of one node; return its seconds, and the largest process's MiB."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        algorithm = {**definition("msgpack"), "maxWorkers": instances}
        (root / "echo.json").write_text(json.dumps(algorithm))
        nodes = [{"nodeName": "all", "algorithmName": "echo", "input": [f"#[1...{num_tasks}]"]}]
        (root / "pipeline.json").write_text(json.dumps({"name": "bench", "nodes": nodes}))
        command = [*TARMAC, "run", "--output", str(root / "runs"), "--result", str(root / "result")]
        with (root / "out").open("w") as out:
            started = time.perf_counter()
            process = subprocess.Popen([*command, str(root / "pipeline.json")], stdout=out)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, (root / "out").read_text()[-2000:]
        return seconds, usage.ru_maxrss / 1024


@contextlib.contextmanager
def empty_image() -> Iterator[list[str]]:
    """Make an image with nothing in it; gives the directories that have to be mounted."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name in ("bin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
    subprocess.run(["docker", "import", "-", IMAGE], input=content.getvalue(), check=True)
    try:
        yield sorted({"/usr", sys.base_prefix, sys.prefix, str(ECHO.parent)})
    finally:
        subprocess.run(["docker", "rmi", "--force", IMAGE], check=True, stdout=subprocess.DEVNULL)


def docker_run_s(directories: Sequence[str]) -> float:
    """Return seconds of `docker run` of Python, with the imports of the echoing program."""
    mounts = [part for path in directories for part in ("-v", f"{path}:{path}:ro")]
    command = ["docker", "run", "--rm", "--network", "host", *mounts, IMAGE, sys.executable, "-c"]
    started = time.perf_counter()
    subprocess.run([*command, "import json, websockets.sync.client"], check=True)
    return time.perf_counter() - started


async def first_in_container_s(directories: Sequence[str]) -> float:
    """Return seconds from the request to the result of a task that needs a new container."""
    mounts = [{"source": path, "target": path, "read_only": True} for path in directories]
    environment = {"image": IMAGE, "pull": "never", "mounts": mounts}
    async with host(definition(environment=environment)) as pool:
        started = time.perf_counter()
        ending = await pool.submit(work(0))
        assert ending.succeeded, ending
        return time.perf_counter() - started


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of all lies under."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Return what is recorded of many tasks' times."""
    shares = {"50 %": 0.5, "90 %": 0.9, "99 %": 0.99, "99.9 %": 0.999}
    return {name: round(percentile(values, share), 4) for name, share in shares.items()}


def main() -> None:
    """Run the rounds and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--warm", type=int, default=500)
    parser.add_argument("--no-containers", action="store_true")
    given = parser.parse_args()
    cores = os.cpu_count() or 1
    warm: dict[str, list[float]] = {name: [] for name in ENCODINGS}
    bare: dict[str, list[float]] = {name: [] for name in ENCODINGS}
    batches: dict[int, list[tuple[float, float]]] = {1: [], given.tasks // 10: [], given.tasks: []}
    containers: dict[str, list[float]] = {"docker run alone": [], "a first task": []}
    for _ in range(given.rounds):
        for encoding in ENCODINGS:
            warm[encoding] += asyncio.run(warm_ms(encoding, given.warm))
            bare[encoding] += asyncio.run(messages_ms(encoding, given.warm))
        for num_tasks, measured in batches.items():
            measured.append(batch(num_tasks, cores))
    if not given.no_containers and shutil.which("docker"):
        with empty_image() as directories:
            for _ in range(given.rounds):
                containers["docker run alone"].append(docker_run_s(directories))
                first = asyncio.run(first_in_container_s(directories))
                containers["a first task"].append(first)
    rows = [
        [
            encoding,
            *(f"{percentile(warm[encoding], share):.2f}" for share in (0.5, 0.99)),
            *(f"{percentile(bare[encoding], share):.2f}" for share in (0.5, 0.99)),
        ]
        for encoding in ENCODINGS
    ]
    header = ["", "a task, median", "99 %", "its messages alone, median", "99 %"]
    one_s = Spread.of([seconds for seconds, _ in batches[1]]).median
    batch_rows = []
    for num_tasks, measured in batches.items():
        seconds = Spread.of([seconds for seconds, _ in measured])
        # Of a small batch, it would be the spread of the start's own time.
        is_large = num_tasks == given.tasks
        rate = f"{num_tasks / (seconds.median - one_s):,.0f}" if is_large else ""
        memory = Spread.of([mib for _, mib in measured])
        batch_rows.append([f"{num_tasks:,}", seconds.show(), rate, memory.show(0)])
    text = (
        f"Milliseconds from the request to the result of a warm program that returns at once, "
        f"{given.rounds} rounds of {given.warm} tasks, alternating with the same messages without "
        f"Tarmac.\n\n{table(header, rows)}\n\n"
        f"`tarmac run` of a pipeline whose one node has so many tasks, by {cores} such programs, "
        f"{given.rounds} rounds; medians, with the lowest and highest in brackets. The rate leaves "
        "out what a run of one task takes.\n\n"
        f"{table(['tasks', 'seconds', 'tasks a second', 'MiB at most'], batch_rows)}\n"
    )
    if containers["a first task"]:
        container_rows = [[name, Spread.of(s).show()] for name, s in containers.items()]
        text += (
            "\nThe first task of an algorithm in a container of Docker's, against a container that "
            "starts Python and imports the same.\n\n" + table(["", "seconds"], container_rows)
        )
    data = {
        "rounds": given.rounds,
        "tasks": given.tasks,
        "warm": given.warm,
        "warm_ms": {name: quantiles(values) for name, values in warm.items()},
        "bare_ms": {name: quantiles(values) for name, values in bare.items()},
        "batches": batches,
        "containers_s": containers,
    }
    write_results("hkube", data, text)


if __name__ == "__main__":
    main()
