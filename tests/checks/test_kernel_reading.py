"""What is kept of a kernel's log: what still counts, with its age; and that nothing is not "ok"."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from recorded.kernel import CLOCK, log, xid

from tarmac.checks.evidence import Evidence
from tarmac.checks.kernel_reading import KernelLog, read_kernel_log, select_lines
from tarmac.checks.kernel_time import Clock, age_in_words, read_age
from tarmac.checks.rules.findings import find
from tarmac.machine import Gpu

NOON = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)
NOON_CLOCK = Clock(now=NOON, uptime_s=1000.0)
LOADED = "[ {}] nvidia-nvlink: Nvlink Core is being initialized, major device number 236"


@pytest.fixture
def utc(monkeypatch):
    """Let times without a zone be those of UTC."""
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("line", "age_s"),
    [
        ("[  400.000000] NVRM: x", 600),
        ("[  400.000000][   T12] NVRM: x", 600),
        ("<3>[  400.000000] NVRM: x", 600),
        ("kern  :err   : [  400.000000] NVRM: x", 600),
        ("3,1234,400000000,-;NVRM: x", 600),
        ("2026-03-01T11:50:00+0000 kernel: NVRM: x", 600),
        ("2026-03-01T12:50:00+01:00 host kernel: NVRM: x", 600),
        ("2026-03-01T11:50:00.250000Z host kernel: NVRM: x", 599.75),
        ("2026-03-01T11:50:00,250000+00:00 NVRM: x", 599.75),
        ("2026-03-01T11:50:00 host kernel: NVRM: x", 600),
        ("[Sun Mar  1 11:50:00 2026] NVRM: x", 600),
        ("Mar  1 11:50:00 host kernel: [ 12.5] NVRM: x", 600),
        ("Dec 31 12:00:00 host kernel: NVRM: x", 60 * 86400),
        ("Feb 29 12:00:00 host kernel: NVRM: x", None),
        ("[Sun Xyz  1 11:50:00 2026] NVRM: x", None),
        ("2026-13-01T11:50:00 host kernel: NVRM: x", None),
        ("[ 9000.000000] of another start of the machine", None),
        ("NVRM: x", None),
        ("", None),
    ],
)
@pytest.mark.usefixtures("utc")
def test_a_lines_age_is_read_in_each_form(line, age_s):
    assert read_age(line, NOON_CLOCK) == age_s


def test_ages_are_said_in_words():
    said = [age_in_words(age_s) for age_s in (5, 240, 7200, 5 * 86400)]
    assert said == ["5 s ago", "4 min ago", "2 h ago", "5 days ago"]


def test_an_error_names_gpu_meaning_age_and_process():
    (finding,) = find(log(xid(94)))
    assert finding.evidence == (
        "GPU 0 (0000:19:00): Xid 94, contained memory error, 4 min ago, pid 7194 python "
        "(restart the program that was ended; nothing else is affected)"
    )
    assert (finding.code, finding.level, finding.where) == ("xid-contained", "warning", ("GPU 0",))
    assert finding.fix[0].startswith("nvidia-smi -q -d ROW_REMAPPER -i 0 ")


def test_each_gpu_is_named_with_its_own_errors():
    gpus = tuple(Gpu(index=n, name="x", address=f"0000:{n}9:00.0") for n in range(3))
    lines = [xid(119).replace(":19:", f":{n}9:") for n in (0, 2, 2)]
    evidence = log(*lines)
    inventory = evidence.inventory.model_copy(update={"gpus": gpus})
    (finding,) = find(Evidence(inventory=inventory))
    assert finding.where == ("GPU 0", "GPU 2")
    assert re.findall(r"GPU \d \(.*?\): Xid 119", finding.evidence) == [
        "GPU 0 (0000:09:00): Xid 119",
        "GPU 2 (0000:29:00): Xid 119",
    ]
    assert "2 times" in finding.evidence
    assert "sudo nvidia-smi --gpu-reset -i 0,2  # or restart the machine" in finding.fix


def test_a_card_that_fell_off_the_bus_is_one_finding():
    lines = (xid(79, "GPU has fallen off the bus."), xid(45), xid(154, "to 0x2 (Node Reboot Re"))
    found = find(log(*lines, "[ 3361.1] NVRM: GPU 0000:19:00.0: GPU has fallen off the bus."))
    assert [(f.code, f.level) for f in found] == [
        ("fell-off-bus", "failure"),
        ("xid-watch", "note"),
    ]


def test_a_host_is_told_what_to_type_and_a_container_whom_to_tell():
    from recorded.evidence import DOCKER

    (there,) = find(log(xid(119)))
    (here,) = find(log(xid(119), container=DOCKER))
    assert any("sudo nvidia-smi" in line and not line.startswith("#") for line in there.fix)
    assert all(line.startswith("# tell the host's administrator") for line in here.fix)


def test_what_is_old_no_longer_counts():
    old, new = "[ 10.0] " + xid(119).partition("] ")[2], xid(119)
    assert select_lines([old, new], CLOCK, 24) == [old, new]
    assert select_lines([old, new], CLOCK, 0.5) == [new]


def test_why_a_driver_did_not_start_counts_however_old():
    line = "[   12.5] NVRM: GPU 0000:19:00.0: RmInitAdapter failed! (0x26:0x56:1482)"
    assert select_lines([line], CLOCK, 0.01) == [line]


@pytest.mark.parametrize("number", [46, 62, 95, 119])
def test_a_reset_clears_what_it_mends(number):
    reset = xid(154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")
    other = reset.replace(":19:", ":1a:")
    assert select_lines([xid(number), other], CLOCK, 24) == [xid(number)]
    assert select_lines([xid(number), reset], CLOCK, 24) == []
    assert select_lines([xid(number), LOADED.format("3400.1")], CLOCK, 24) == []
    assert select_lines([LOADED.format("3.1"), xid(number)], CLOCK, 24) == [xid(number)]


@pytest.mark.parametrize("number", [54, 64, 157])
def test_a_reset_does_not_clear_what_needs_hands(number):
    assert select_lines([xid(number), LOADED.format("3400.1")], CLOCK, 24) == [xid(number)]


def test_a_flood_of_one_error_does_not_hide_another():
    first = xid(79, "GPU has fallen off the bus.").replace(":19:", ":2b:")
    kept = select_lines([first, *[xid(31)] * 1000, *["[ 1.0] NVRM: chatter"] * 1000], CLOCK, 24)
    assert kept[0] == first
    assert len(kept) < 100


def test_the_second_line_of_a_message_is_as_old_as_the_first():
    lines = ["[ 10.0] NVRM: The NVIDIA GPU 0000:19:00.0", "       NVRM: fallen off the bus and"]
    assert select_lines(lines, CLOCK, 0.5) == lines[:1]


def test_this_machines_log_is_read_or_why_not_is_said():
    lines, read = read_kernel_log()
    assert (read.source is None) <= bool(read.problem)
    assert read.source is not None or lines == ()


def test_a_user_without_rights_is_told_so(second_user):
    if Path("/proc/sys/kernel/dmesg_restrict").read_text() != "1\n":
        pytest.skip("all users may read the kernel's log: sudo sysctl kernel.dmesg_restrict=1")
    if (
        shutil.which("journalctl")
        and subprocess.run(
            ["journalctl", "-k", "-b", "-q"], capture_output=True, check=False
        ).stdout
    ):
        pytest.skip("a journal is kept here, which users of group adm may read")
    _, read = second_user(read_kernel_log)
    assert read.source is None
    assert "dmesg: read kernel buffer failed: Operation not permitted" in read.problem
    (finding,) = find(log(kernel=read))
    assert (finding.code, finding.level) == ("kernel-log-unreadable", "note")
    assert "Operation not permitted" in finding.evidence
    assert "adm" in finding.fix[0]


def program(folder, name, lines):
    """Make a program that prints a log, as another system has it."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.log").write_bytes(lines)
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat {folder / name}.log\n")
    path.chmod(0o755)


def test_a_log_of_ten_megabytes_is_read_whole(tmp_path, monkeypatch):
    filler = b"[  5.000000] usb 1-1: new high-speed USB device, Xid or not \xff\xfe\n" * 160_000
    seen = xid(48).encode()
    program(tmp_path / "bin", "dmesg", b"[  0.000000] Linux\n" + filler + seen + b"\n" + filler)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    lines, read = read_kernel_log(hours=1e6)
    assert lines == (xid(48),)
    assert read.source == "dmesg"


def test_what_the_kernel_has_forgotten_is_asked_of_the_journal(tmp_path, monkeypatch):
    now = datetime.datetime.now(datetime.UTC)
    minute_ago = (now - datetime.timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%S+0000")
    forgotten = f"{minute_ago} kernel: NVRM: Xid (PCI:0000:19:00): 48, DBE"
    program(tmp_path / "bin", "dmesg", f"{minute_ago} kernel: late\n".encode())
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    _, read = read_kernel_log()
    assert read.source == "dmesg"
    assert re.fullmatch(r"dmesg covers only the last 0\.0 h", read.problem)
    old = (now - datetime.timedelta(days=400)).strftime("%Y-%m-%dT%H:%M:%S+0000")
    program(tmp_path / "bin", "journalctl", f"{old} kernel: Linux\n{forgotten}\n".encode())
    lines, read = read_kernel_log()
    assert (lines, read.source, read.problem) == ((forgotten,), "journalctl", None)


def test_a_program_that_prints_nothing_has_told_nothing(tmp_path, monkeypatch):
    for name in ("dmesg", "journalctl"):
        program(tmp_path / "bin", name, b"")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    _, read = read_kernel_log()
    assert read == KernelLog(
        problem="dmesg printed nothing; journalctl printed nothing", secure_boot=read.secure_boot
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"\6\0\0\0\1", True), (b"\6\0\0\0\0", False), (b"", None), (b"\1", None), (None, None)],
)
def test_secure_boot_is_read_from_the_firmwares_variables(tmp_path, value, expected):
    folder = tmp_path / "sys/firmware/efi/efivars"
    folder.mkdir(parents=True)
    if value is not None:
        (folder / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(value)
    _, read = read_kernel_log(root=tmp_path)
    assert read.secure_boot is expected
