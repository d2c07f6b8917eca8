"""Scraping `tarmac top --serve`: 8 GPUs, 20 runs and 100 processes, while snapshots go on changing.

    python bench/scrape.py [--gpus 8] [--runs 20] [--scrapes 500]

The server is the one of the command, in a process of its own, and each scrape is a connection of
its own. A page is encoded when a snapshot comes, so a scrape may have to wait for that alone: told
are a machine whose snapshot stays, and one with another each second. The goal is 5 ms.
"""

from __future__ import annotations

import argparse
import dataclasses
import http.client
import multiprocessing
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from _harness import Spread, table, write_results
from tarmac.machine import LiveGpu, LiveHost, LiveProcess
from tarmac.monitor import HostSnapshot, MetricsAddress, ProcessRow, Snapshot, Work, serve_metrics

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
_GIB = 2**30


@dataclasses.dataclass
class Machine:
    """A feed of a machine whose every number changes, as often as it is asked to."""

    gpus: int
    runs: int
    interval_s: float
    number: int = 0

    def next(self) -> Snapshot:
        """Return the next snapshot, after a pause."""
        if self.number:
            time.sleep(self.interval_s)
        self.number += 1
        return snapshot_of(self.gpus, self.runs, self.number)

    def close(self) -> None:
        """Do nothing."""


def snapshot_of(gpus: int, runs: int, number: int) -> Snapshot:
    """Return a machine's snapshot."""
    part = number % 100 / 100
    cards = tuple(
        LiveGpu(
            index,
            f"GPU-{index:08x}-0000-0000-0000-000000000000",
            "NVIDIA H100 80GB HBM3",
            pci_address=f"0000:{index:02x}:00.0",
            utilization_ratio=part,
            memory_utilization_ratio=part / 2,
            tensor_ratio=part / 3,
            memory_used_bytes=int(80 * part * _GIB),
            memory_total_bytes=80 * _GIB,
            power_watts=700 * part,
            power_limit_watts=700.0,
            temperature_c=64.0,
            memory_temperature_c=72.0,
            sm_clock_mhz=1755,
            max_sm_clock_mhz=1980,
            memory_clock_mhz=2619,
            pcie_generation=5,
            pcie_width=16,
            energy_joules=700.0 * number,
            throttled_s={"power": 0.1 * number, "thermal": 0.0},
            corrected_errors=0,
            uncorrected_errors=0,
            row_remaps=0,
            processes=tuple(LiveProcess(pid, pid) for pid in range(12)),
        )
        for index in range(gpus)
    )
    uuids = [card.uuid for card in cards]
    work = tuple(
        Work(
            f"brave-fox-{index}",
            "training",
            f"/runs/brave-fox-{index}",
            "running",
            workload="mnist-mlp",
            user="ann",
            gpu_uuids=(uuids[index % gpus],),
            epoch=number,
            epochs=1000,
            loss=1 / number,
            metric_name="val_accuracy",
            metric=part,
            samples_per_s=51000.0,
            eta_s=42.0,
            checkpoint_age_s=30.0,
            quiet_s=1.0,
            energy_joules=1000.0 * number,
            waits={"data": 0.01, "ranks": 0.02},
        )
        for index in range(runs)
    )
    at = datetime.now(UTC)
    host = HostSnapshot(
        at,
        LiveHost("n01", 96.0, part, 3.0, 100 * _GIB, 1000 * _GIB, 0.0),
        cards,
        dict.fromkeys(uuids, "busy"),
        {},
        tuple(ProcessRow(pid, uuids[pid % gpus], "ann", "python train.py") for pid in range(100)),
        work,
    )
    return Snapshot(at, (host,))


def serve(place: Connection, gpus: int, runs: int, interval_s: float) -> None:
    """Serve until the process is ended."""
    feed = Machine(gpus, runs, interval_s)
    serve_metrics(feed, MetricsAddress(), with_dcgm_names=True, tell=place.send)


def scrape(address: str) -> tuple[float, str]:
    """Return how long a scrape took, in milliseconds, and what it got."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", "/metrics", headers=OPENMETRICS)
    text = connection.getresponse().read().decode()
    connection.close()
    return 1000 * (time.perf_counter() - begun), text


def measure(asked: argparse.Namespace, interval_s: float, pause_s: float) -> tuple[Spread, str]:
    """Return the times of scrapes with a pause between them, and what the last one got."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(
        target=serve, args=(there, asked.gpus, asked.runs, interval_s), daemon=True
    )
    server.start()
    address = here.recv().removeprefix("http://").removesuffix("/metrics")
    scrape(address)
    taken, text = [], ""
    for _ in range(asked.scrapes):
        time.sleep(pause_s)
        one, text = scrape(address)
        taken.append(one)
    server.terminate()
    server.join()
    return Spread.of(taken), text


def main() -> None:
    """Measure scrapes that find an encoded page, and those that each find a new snapshot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--scrapes", type=int, default=500)
    asked = parser.parse_args()
    cases = {"while the snapshot stays": (3600.0, 0.0), "a snapshot every second": (1.0, 0.03)}
    rows, facts = [], {}
    for name, (interval_s, pause_s) in cases.items():
        spread, text = measure(asked, interval_s, pause_s)
        high = sorted(spread.values)[int(0.99 * len(spread.values))]
        facts[name] = spread.values
        rows.append([name, spread.show(), f"{high:.2f}"])
    series = sum(not line.startswith("#") for line in text.splitlines())
    said = (
        f"{asked.gpus} GPUs and {asked.runs} runs with dcgm-exporter's names: {series} series, "
        f"{len(text) / 1024:.0f} KiB; {asked.scrapes} scrapes each.\n\n"
        f"{table(['a scrape', 'ms: median (lowest to highest)', '99 % below'], rows)}"
    )
    write_results("scrape", {"series": series, "milliseconds": facts}, said)


if __name__ == "__main__":
    main()
