"""What a line of a kernel's log says, in the forms in which drivers and kernels write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.checks.kernel_log import ALL_GPUS, MARKS, read_event, read_recovery, read_xids

XID_94 = "NVRM: Xid (PCI:0000:9c:00): 94, pid=7194, name=python, Contained: SM (0x1). RST: No"


def short(line: str) -> tuple[object, ...] | None:
    event = read_event(line)
    if event is None:
        return None
    return event.code, event.address, event.number, event.pid, event.process


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (XID_94, ("xid-contained", "0000:9c:00", 94, 7194, "python")),
        (f"[ 123.456789] {XID_94}", ("xid-contained", "0000:9c:00", 94, 7194, "python")),
        (
            f"2026-11-22T03:17:56+0000 node7 kernel: {XID_94}",
            ("xid-contained", "0000:9c:00", 94, 7194, "python"),
        ),
        (
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). "
            "RST: No, D-RST: No",
            ("xid-contained", "0000:01:00", 94, 7194, None),
        ),
        (
            "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off "
            "the bus.",
            ("fell-off-bus", "0000:05:00", 79, None, None),
        ),
        (
            "NVRM: Xid (PCI:0000:05:00): 31, pid='1234', name=python3, Ch 00000008",
            ("xid-restart-program", "0000:05:00", 31, 1234, "python3"),
        ),
        (
            "NVRM: Xid (0000:03:00): 13, Channel 00000001",
            ("xid-restart-program", "0000:03:00", 13, None, None),
        ),
        ("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.", ("fell-off-bus", "0000:29:00", 79)),
        ("NVRM: GPU 18:00.0: GPU has fallen off the bus.", ("fell-off-bus", "0000:18:00", 79)),
        (
            "NVRM: fallen off the bus and is not responding to commands.",
            ("fell-off-bus", None, 79),
        ),
        (
            "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6)",
            ("xid-nvlink-fatal", "0009:01:00", 149),
        ),
        (
            "NVRM: Xid (PCI:0000:04:00): 145, RLW_CTRL Nonfatal XC0 i0 Link 00 (0x00000003)",
            ("xid-nvlink", "0000:04:00", 145),
        ),
        (
            "NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x4 (Drain and "
            "Reset) to 0x1 (GPU Reset Required)",
            ("xid-reset", "0019:01:00", 154),
        ),
        (
            "NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset "
            "Required) to 0x2 (Node Reboot Required)",
            ("xid-reboot", "0019:01:00", 154),
        ),
        (
            "NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset "
            "Required) to 0x0 (None)",
            None,
        ),
        ("NVRM: Xid (PCI:0000:04:00): 999, something new", ("xid-unknown", "0000:04:00", 999)),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress "
            "non-posted PRIV error (First)",
            ("sxid", "0000:05:00", 12028),
        ),
        (
            "[131453.740743] nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 "
            "LTSSM Fault Up",
            ("sxid-fatal", "0000:a9:00", 20034),
        ),
        ("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Data {0x50610002, 0x10100030}", None),
        ("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Severity 1 Engine instance 30", None),
        (
            "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0x56:1482)",
            ("adapter-init-failed", "0000:01:00"),
        ),
        ("NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)", ("adapter-init-failed", "0000:01:00")),
        (
            "NVRM: API mismatch: the client 'nvidia-smi' (pid 4711)",
            ("driver-mismatch", None, None, 4711, "nvidia-smi"),
        ),
        (
            "Out of memory: Killed process 8210 (python) total-vm:58310452kB, anon-rss:25480200kB, "
            "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:50212kB oom_score_adj:0",
            ("oom-killed", None, None, 8210, "python"),
        ),
        (
            "Memory cgroup out of memory: Killed process 19636 (train.py) total-vm:1kB",
            ("oom-killed", None, None, 19636, "train.py"),
        ),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg"
            "=/docker/abc123,task_memcg=/docker/abc123,task=postgres,pid=12345,uid=1000",
            ("oom-killed", None, None, 12345, "postgres"),
        ),
        (
            "nvidia 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, "
            "(Receiver ID)",
            ("pcie-corrected", "0000:01:00"),
        ),
        (
            "pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), "
            "type=Transaction Layer, (Requester ID)",
            ("pcie-uncorrected", "0000:00:01"),
        ),
        ("Loading of unsigned module is rejected", ("secure-boot",)),
        (
            "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
            ("secure-boot",),
        ),
        (
            "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
            ("open-module-needed",),
        ),
        ("NVRM: NVIDIA 590.44.01 driver release.", ("driver-too-new",)),
        (
            "NVRM: nvidia.ko because it does not include the required GPU",
            ("driver-too-new",),
        ),
    ],
)
def test_a_line_is_read(line, expected):
    found = short(line)
    assert found == (expected and (*expected, *(None,) * (5 - len(expected))))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "NVRM: Xid (PCI:0000:9c:00): 9",
        "NVRM: Xid (PCI:0000:9c",
        "NVRM: Xid error: xyz, invalid data",
        "NVRM: Xid (invalid): some error",
        "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): xyz, Fatal error",
        "RPC: Xid (PCI:0000:9c:00): 79, of another driver",
        "dhclient: XMT: Request on eth0, Xid 79, interval 1000ms.",
        "sunrpc: server reply with Xid (0x79): 48, retrying",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.126.20",
        "nvidia: module verification failed: signature and/or required key missing - tainting",
        "Killed process groups are ended by name",
        "oom-killer is a program that is discussed here",
        "The patch set is rejected",
        "this driver release. Please see",
        "e1000e 0000:00:1f.6: AER: can't recover (no error_detected callback)",
    ],
)
def test_other_lines_say_nothing(line):
    assert read_event(line) is None


def test_a_process_that_was_cut_off_is_not_named():
    event = read_event("NVRM: Xid (PCI:0000:9c:00): 94, pid=71")
    assert event is not None
    assert (event.number, event.pid, event.process) == (94, None, None)


def test_a_programs_name_cannot_stand_for_another_error():
    name = "NVRM: Xid (PCI:0000:01:00): 79; x"
    event = read_event(f"NVRM: Xid (PCI:0000:9c:00): 31, pid=5, name={name}, Ch 00000008")
    assert event is not None
    assert (event.number, event.address, event.process) == (31, "0000:9c:00", name)


def test_the_words_say_what_happened():
    event = read_event("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE")
    assert event is not None
    assert event.words == "Xid 94, contained memory error in MIG instance 5"
    event = read_event("NVRM: Xid (PCI:0000:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01")
    assert event is not None
    assert event.words == "Xid 149, NVLink error: NETIR_LINK_EVT Fatal"
    event = read_event("Out of memory: Killed process 1 (a b) total-vm:9kB, anon-rss:25480200kB, x")
    assert event is not None
    assert event.words == "the kernel killed a program: out of memory, with 24.3 GiB in use"


@pytest.mark.parametrize(
    ("line", "address"),
    [
        (
            "[    3.2] nvidia-nvlink: Nvlink Core is being initialized, major device number 236",
            ALL_GPUS,
        ),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.126.20", None),
        (
            "NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset "
            "Required) to 0x0 (None)",
            "0019:01:00",
        ),
        (
            "NVRM: Xid (PCI:0019:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 "
            "(GPU Reset Required)",
            None,
        ),
    ],
)
def test_a_gpu_that_was_reset_is_seen(line, address):
    assert read_recovery(line) == address


def test_all_numbers_of_the_makers_table_that_ask_for_something_are_known():
    known = read_xids()
    levels = {
        "xid-restart-program": [13, 31, 32, 39, 40, 41, 69, 80],
        "xid-watch": [43, 45, 63, 92, 93, 121, 141],
        "xid-reset": [46, 62, 109, 110, 119, 120, 136, 140, 143, 158, 48, 171, 172, 64, 95],
        "xid-cables": [54],
        "xid-nvlink": [74, *range(144, 151), 155],
        "xid-update": [78],
        "fell-off-bus": [79],
        "xid-reboot": [167, 151],
        "xid-contained": [94],
        "xid-reset-soon": [156],
        "xid-support": [157],
    }
    found = {code: sorted(numbers) for code, numbers in levels.items()}
    assert found == {
        code: [number for number in sorted(numbers) if known[number].code == code]
        for code, numbers in levels.items()
    }


@given(st.text(), st.sampled_from([*MARKS, XID_94]), st.text())
def test_no_line_is_too_odd_to_be_read(before, mark, after):
    read_event(before + mark + after)
    read_recovery(before + mark + after)
