"""A soak finds a bit that flips, names what dies or hangs, and says what it has done."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import torch

from tarmac import RequestError
from tarmac.checks import check
from tarmac.checks.frameworks import PROBES
from tarmac.checks.soak import SoakedDevice, SoakProgress
from tarmac.checks.soaked import watched_gpus
from tarmac.cli.views import soak as soak_view
from tarmac.machine import Gpu
from tarmac.processes.handles import has_ended
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Long enough to be ended by a test, never by itself.
FOR_EVER = "1h"


@pytest.mark.parametrize(
    ("lost", "words"), [("", ""), ("ended by SIGKILL at: products", "  lost: cuda:1")]
)
def test_a_device_that_a_soak_has_lost_is_named_while_it_goes_on(capsys, lost, words):
    devices = (
        SoakedDevice("cuda:0", "products", 1200, 0, ""),
        SoakedDevice("cuda:1", "products", 800, 3, lost),
    )
    with soak_view.soaking(is_asked=False) as (_, tell):
        tell(SoakProgress(elapsed_s=61.0, limit_s=600.0, devices=devices, hottest_c=None))
    line = f"soak 61 of 600 s  products  2,000 comparisons, 3 wrong{words}\n"
    assert capsys.readouterr().err == line


class Asked:
    """A probe that is asked for devices.

    Args:
        wanted: Their names or kinds; empty for all GPUs, or the CPU where there is none.
    """

    def __init__(self, directory: Path, *wanted: str) -> None:
        self.directory, self.wanted = directory, wanted
        self.result: dict[str, object] = {}
        self.devices: list[str] = []

    def lacks(self, _framework: str) -> bool:
        return False

    def wants(self, name: str) -> bool:
        return not {name, name.partition(":")[0]}.isdisjoint(self.wanted)

    def device(self, name: str, _is_gpu: object) -> dict[str, object]:
        self.devices.append(name)
        return {}

    def stage(self, _name: str) -> None:
        pass


@pytest.mark.parametrize(
    ("num_gpus", "wanted", "devices"),
    [
        (2, (), ["cuda:0", "cuda:1"]),
        (2, ("cuda:1", "cpu"), ["cuda:1", "cpu"]),
        (0, (), ["cpu"]),
        # What was asked for is not there; another device is no answer.
        (0, ("cuda",), []),
    ],
)
def test_a_soak_takes_the_gpus_or_what_was_asked_for(
    monkeypatch, tmp_path, num_gpus, wanted, devices
):
    monkeypatch.syspath_prepend(str(PROBES))
    import soak_probe

    monkeypatch.setattr(soak_probe, "count_gpus", lambda _: num_gpus)
    monkeypatch.setattr(soak_probe, "start", lambda *_: [])
    probe = Asked(tmp_path, *wanted)
    soak_probe.main(probe)
    assert probe.devices == devices


@pytest.fixture
def soak(monkeypatch):
    """Return a small soak of this process's CPU, ready for its first round."""
    monkeypatch.syspath_prepend(str(PROBES))
    import soak_work

    monkeypatch.setattr(soak_work, "COPY_BYTES", 1 << 12)
    monkeypatch.setattr(soak_work, "BLOCK_BYTES", {"cpu": 1 << 12})
    monkeypatch.setattr(soak_work, "PRODUCT_SIZE", {"cpu": 32})
    work = soak_work.Soak(torch, "cpu", "", lambda **_: None)
    work.prepare()
    work.most = 4
    return work


def flip(tensor: torch.Tensor, index: int, bit: int) -> None:
    words = tensor.flatten().view({4: torch.int32, 8: torch.int64}[tensor.element_size()])
    words[index] ^= 1 << bit


def test_rounds_of_a_sound_device_agree(soak):
    for _ in range(20):
        soak.multiply()
        soak.copy()
        soak.visit()
    assert soak.state["num_mismatches"] == 0
    assert soak.state["memory_bytes"] == 4 << 12
    assert soak.state["comparisons"] == 20 * (2 + 2) + 20 + 16


def test_every_bit_of_memory_holds_both_values_in_every_pattern(soak):
    soak.grow()
    for _ in range(3):
        soak.visits[0] += 1
        soak.write(0, inverse=False)
        straight = soak.blocks[0].clone()
        soak.write(0, inverse=True)
        assert torch.equal(straight ^ soak.blocks[0], torch.full_like(straight, -1))


@pytest.mark.parametrize("which", ["first", "inputs"])
def test_a_flipped_bit_of_a_product_is_found_once_and_said(soak, which):
    a, _, first, _ = soak.products["fp32"]
    before = int(first.flatten().view(torch.int32)[37])
    if which == "first":
        flip(first, 37, 30)
    else:
        flip(a, 37, 22)
    soak.multiply()
    (found,) = soak.state["mismatches"]
    assert found["operation"] == "product in fp32"
    if which == "first":
        assert (found["elements"], found["of"], found["first"]) == (1, 1024, 37)
        assert int(found["found"], 16) == before % 2**32
        assert int(found["expected"], 16) ^ int(found["found"], 16) == 1 << 30
    # What is wrong from then on is compared with itself.
    soak.multiply()
    assert soak.state["num_mismatches"] == 1


def test_a_flipped_bit_of_a_copy_is_found(soak):
    _, _, expected = soak.places[0]
    flip(expected, 5, 63)
    soak.copy()
    assert [found["operation"] for found in soak.state["mismatches"]] == [
        "copy to other memory",
        "copy from other memory",
    ]


@pytest.mark.parametrize("bit", [0, 31, 63])
def test_a_bit_that_flips_while_it_lies_in_memory_is_found_at_its_next_turn(soak, bit):
    for _ in range(4):
        soak.visit()
    flip(soak.blocks[2], 100, bit)
    for _ in range(8):
        soak.visit()
    (found,) = soak.state["mismatches"]
    assert found["operation"].startswith("memory (")
    assert found["operation"].endswith(", inverse)")
    assert (found["elements"], found["first"]) == (1, 100)
    assert int(found["expected"], 16) ^ int(found["found"], 16) == 1 << bit


def test_mismatches_are_counted_and_the_first_are_kept(soak):
    soak.visit()
    for _ in range(25):
        flip(soak.blocks[0], 0, 0)
        soak.see(0)
        flip(soak.blocks[0], 0, 0)
    assert soak.state["num_mismatches"] == 25
    assert len(soak.state["mismatches"]) == 20


def test_a_soak_takes_no_more_than_its_control_group_leaves(limited_group):
    group = limited_group("memory", {"memory.max": str(256 << 20)})
    program = (
        "import os, sys\n"
        f"open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        f"sys.path.insert(0, {str(PROBES)!r})\n"
        "import soak_work\n"
        "print(min(soak_work._group_bytes()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 128 << 20 < int(done.stdout) <= 256 << 20


class Soaking:
    """A ``tarmac check --soak`` that runs, its progress on a terminal of ours."""

    def __init__(self, *arguments: str) -> None:
        self._terminal, other = pty.openpty()
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "tarmac", "check", "--device", "cpu", "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=other,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        os.close(other)
        self.shown = ""

    def wait_for(self, words: str) -> None:
        """Read what is shown until it has some words."""
        while words not in self.shown:
            self.shown += os.read(self._terminal, 4096).decode()

    def worker(self) -> psutil.Process:
        """Return the process of the device."""
        for child in psutil.Process(self.popen.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "--rank" in child.cmdline():
                    return child
        raise AssertionError("no device is soaked")

    def report(self) -> dict[str, object]:
        """Return the report, once it has ended."""
        assert self.popen.stdout is not None
        return json.loads(self.popen.stdout.read())

    def close(self) -> None:
        self.popen.kill()
        self.popen.communicate()
        os.close(self._terminal)


@pytest.fixture
def soaking() -> Iterator[Callable[..., Soaking]]:
    with contextlib.ExitStack() as started:

        def start(*arguments: str) -> Soaking:
            running = Soaking(*arguments)
            started.callback(running.close)
            return running

        yield start


def plant(pid: int, bit: int) -> int:
    """Flip a bit of a process's memory that lies under a pattern; return the word's address.

    The pattern is that in which each word holds its own address, inverted.
    """
    process = Path(f"/proc/{pid}")
    with (process / "mem").open("r+b", 0) as memory:
        for line in (process / "maps").read_text().splitlines():
            place, rights, _, _, inode = line.split()[:5]
            start, end = (int(part, 16) for part in place.split("-"))
            if rights[:2] != "rw" or inode != "0" or end - start < 1 << 25:
                continue
            address = (start + (1 << 24)) // 8 * 8
            memory.seek(address)
            word = int.from_bytes(memory.read(8), sys.byteorder)
            if word == 2**64 - 1 - address:
                memory.seek(address)
                memory.write((word ^ (1 << bit)).to_bytes(8, sys.byteorder))
                return address
    return 0


def test_a_bit_that_is_flipped_in_the_memory_of_a_soak_is_found_and_ctrl_c_reports_it(soaking):
    running = soaking("--soak", FOR_EVER)
    running.wait_for("memory")
    worker = running.worker()
    address = 0
    while not address:
        address = plant(worker.pid, 9)
    # Takes no more memory, so that the block has its next turn soon.
    status = Path(f"/proc/{worker.pid}/status").read_text()
    taken = int(status.partition("VmData:")[2].split()[0]) << 10
    resource.prlimit(worker.pid, resource.RLIMIT_DATA, (taken + (20 << 20), resource.RLIM_INFINITY))
    running.wait_for("1 wrong")
    running.popen.send_signal(signal.SIGINT)
    report = running.report()
    assert running.popen.wait() == 1
    (finding,) = report["findings"]
    assert (finding["code"], finding["where"]) == ("soak-mismatch", ["soak on cpu"])
    expected = 2**64 - 1 - address
    assert f"0x{expected:016x} expected and 0x{expected ^ 512:016x} found" in finding["evidence"]
    assert finding["evidence"].startswith("memory (addresses, inverse): 1 of 4,194,304 elements")
    assert report["soak"]["interrupted"]
    assert has_ended(worker.pid)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_soak_that_is_ended_early_is_no_success(soaking, sent):
    running = soaking("--soak", FOR_EVER)
    running.wait_for("comparisons, 0 wrong")
    running.wait_for("memory")
    running.popen.send_signal(sent)
    report = running.report()
    assert running.popen.wait() == 130
    assert report["ok"] is False
    (verdict,) = report["frameworks"]
    assert verdict["text"].partition(" interrupted: after ")[1]
    (device,) = report["probes"][0]["result"]["devices"]
    assert device["soak"]["comparisons"] > 0


def test_a_device_whose_process_dies_is_named(soaking):
    running = soaking("--soak", FOR_EVER)
    running.wait_for("memory")
    running.worker().kill()
    report = running.report()
    assert running.popen.wait() == 1
    (finding,) = report["findings"]
    assert (finding["code"], finding["where"]) == ("soak-lost", ["soak on cpu"])
    assert finding["evidence"].startswith("ended by SIGKILL at: ")


def test_a_device_that_hangs_is_named_and_ended(soaking):
    running = soaking("--soak", FOR_EVER, "--timeout", "20")
    running.wait_for("memory")
    worker = running.worker()
    # From now on nothing else is waited for.
    worker.suspend()
    report = running.report()
    assert running.popen.wait() == 1
    (finding,) = report["findings"]
    assert finding["code"] == "soak-lost"
    assert finding["evidence"].startswith("no sign for 20 s at: ")
    assert has_ended(worker.pid)


def test_a_soak_that_nobody_waits_for_ends_by_itself(soaking):
    running = soaking("--soak", FOR_EVER)
    running.wait_for("memory")
    worker = running.worker()
    running.popen.kill()
    wait_until(lambda: has_ended(worker.pid), "the end of the worker", seconds=120)


def test_a_short_soak_passes_and_says_what_it_has_compared():
    report = check(soak_s=0.1, devices=["cpu"])
    (verdict,) = report.frameworks
    assert (verdict.name, verdict.answer) == ("soak", "cpu only")
    assert "comparisons of" in verdict.text
    assert "0 wrong" in verdict.text
    assert report.soak is not None
    assert report.ok


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"soak_s": 0}, "soak is 0, expected above 0 seconds"),
        ({"soak_s": 1, "ranks": 2}, "a soak and ranks exclude each other"),
        ({"soak_s": 1, "provision": ["jax"]}, "a soak uses all devices, with one PyTorch"),
    ],
)
def test_a_soak_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(RequestError, match=message):
        check(**arguments)


def test_what_the_driver_counts_is_shown_by_how_much_it_has_grown():
    before = Gpu(
        index=0, corrected_errors=3, temperature_c=31, sm_clock_mhz={"now": 345, "max": 1980}
    )
    later = before.model_copy(
        update={
            "temperature_c": 77,
            "sm_clock_mhz": {"now": 1755},
            "slowdowns": ("sw_power_cap",),
            "power_watts": {"now": 699.5},
        }
    )
    after = before.model_copy(update={"corrected_errors": 5, "retired_pages": 1})
    (gpu,) = watched_gpus([(before,), (later,), (after,)])
    assert gpu.hottest_c == 77
    assert gpu.sm_clock_mhz == {"lowest": 345, "highest": 1755}
    assert (gpu.most_watts, gpu.slowdowns) == (699.5, ("sw_power_cap",))
    # Pages that were not counted before have no difference.
    assert gpu.counters == {"corrected errors": 2}
