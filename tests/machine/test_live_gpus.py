"""GPUs that are read again and again: on the stand-in for NVIDIA's library, as time passes."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from forked import run_python

_MACHINES = Path(__file__).parents[1] / "checks" / "machines"

# What all programs begin with: `at` sets the time of the stand-in and of what reads it.
_START = """
import dataclasses, os, time
from pathlib import Path
from tarmac.machine import NvmlProblem, live_reader, open_live_reader
clock, now = Path(os.environ["NVML_STAND_IN_CLOCK"]), [0.0]
def at(seconds):
    now[0] = float(seconds)
    new = clock.with_name("new")
    new.write_text(f"{seconds * 1000:.0f}")
    new.replace(clock)
def start(patience_s=200.0, root=Path("/")):
    return open_live_reader(root=root, patience_s=patience_s, clock=lambda: now[0])
def of(gpu, *names):
    return [getattr(gpu, name) for name in names]
# However busy the machine is.
live_reader._START_S = 200.0
at(0)
"""


@pytest.fixture
def watch(on_machine, tmp_path):
    """Return a function that runs a program on a machine of some lines, and returns its result."""

    def run(lines: str, program: str):
        machine = tmp_path / "machine.txt"
        machine.write_text(f"{lines}\nlike healthy\n")
        shutil.copy(_MACHINES / "healthy.txt", tmp_path)
        environment = {
            "NVML_STAND_IN": str(machine),
            "NVML_STAND_IN_CLOCK": str(tmp_path / "clock"),
        }
        done = run_python("-c", _START + program, env=on_machine("healthy", **environment))
        assert done.returncode == 0, done.stderr
        return ast.literal_eval(done.stdout)

    return run


def test_a_gpu_is_described_in_the_units_of_its_fields(watch):
    lines = (
        "0.used 1000\n0.utilization 97 40\n0.slowdowns 0x24\n0.fan 35\n0.field.83 5000000\n"
        "0.field.186 699000\n0.field.74 3000000000\n0.field.142 2\n0.field.143 1\n0.tensor 80\n"
        "0.process 7 1000\n0.shares 7 45\n0.clock 1980"
    )
    found = watch(lines, "print(dataclasses.asdict(start().read()[0]))")
    assert found.pop("uuid").startswith("GPU-7d3c132a")
    assert found == {
        "index": 0,
        "name": "NVIDIA H200",
        "parent_uuid": None,
        "maker": "nvidia",
        "pci_address": "0000:19:00.0",
        "utilization_ratio": 0.97,
        "memory_utilization_ratio": 0.4,
        # It is of the time between two readings.
        "tensor_ratio": None,
        "memory_used_bytes": 1000,
        "memory_total_bytes": 150754820096,
        "power_watts": 699.0,
        "power_limit_watts": 700.0,
        "temperature_c": 31.0,
        "memory_temperature_c": 40.0,
        "fan_ratio": 0.35,
        "sm_clock_mhz": 1980,
        "max_sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "pcie_generation": 5,
        "pcie_width": 16,
        "max_pcie_generation": 5,
        "max_pcie_width": 16,
        "pcie_sent_bytes_per_s": None,
        "pcie_received_bytes_per_s": None,
        "energy_joules": 5000.0,
        "throttle_reasons": ("sw_power_cap", "sw_thermal"),
        # One is a field, the other is asked for where it is none.
        "throttled_s": {"power": 3.0, "thermal": 0.0},
        "corrected_errors": 0,
        "uncorrected_errors": 0,
        "row_remaps": 3,
        "processes": (
            {
                "pid": found["processes"][0]["pid"],
                "driver_pid": 7,
                "kind": "compute",
                "memory_bytes": 1000,
                "sm_ratio": 0.45,
            },
        ),
        "error": None,
    }


def test_values_follow_the_gpu_and_slow_ones_every_five_seconds(watch):
    lines = (
        "0.utilization 0 0 | 1000ms 97 40\n0.field.83 0 +450000/s\n"
        "0.power_limit 700000 | 1000ms 500000\n0.tensor 0 | 1000ms 85"
    )
    program = """
reader, found = start(), []
for second in (0, 1, 5):
    at(second)
    gpu = reader.read()[0]
    found.append(of(gpu, "utilization_ratio", "energy_joules", "tensor_ratio", "power_limit_watts"))
print(found)
"""
    assert watch(lines, program) == [
        [0.0, 0.0, None, 700.0],
        [0.97, 450.0, 0.85, 700.0],
        [0.97, 2250.0, 0.85, 500.0],
    ]


def test_processes_come_and_go_every_two_seconds(watch):
    lines = (
        "0.process 7 1000, 8 2000 | 1000ms 8 2500\n0.graphics 8 2000\n"
        "0.shares 7 45, 8 250 | 1500ms none"
    )
    program = """
reader, found = start(), []
for second in (0, 1, 2):
    at(second)
    found.append([of(process, "driver_pid", "kind", "memory_bytes", "sm_ratio")
                  for process in reader.read()[0].processes])
print(found)
"""
    # 250 % of a GPU is no answer; who is not in one did nothing.
    first = [[7, "compute", 1000, 0.45], [8, "both", 2000, 0.0]]
    assert watch(lines, program) == [first, first, [[8, "both", 2000, 0.0]]]


@pytest.mark.parametrize(("namespace", "pid"), [(4026531836, 7), (4026532000, None)])
def test_a_number_of_another_namespace_is_no_process_here(watch, tmp_path, namespace, pid):
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(f"pid:[{namespace}]")
    program = f"""
process, = start(root=Path({str(tmp_path)!r})).read()[0].processes
print(of(process, "pid", "driver_pid", "sm_ratio"))
"""
    # How much it uses, this card does not tell.
    assert watch("0.process 7 1000", program) == [pid, 7, None]


def test_slices_follow_their_gpu_and_have_their_processes(watch):
    lines = (
        "0.mig 1 1\n0.mig_devices 2\n0.utilization -\n0.process 7 1000, 8 2000\n"
        "999.uuid MIG-1\n999.name NVIDIA H200 MIG 1g.18gb\n999.memory 18000\n999.used 900\n"
        "999.process 7 1000"
    )
    program = """
whole, *slices = start().read()
print([of(gpu, "name", "uuid", "utilization_ratio", "memory_used_bytes")
       + [gpu.parent_uuid == whole.uuid, [process.driver_pid for process in gpu.processes]]
       for gpu in (whole, *slices)])
"""
    whole, *slices = watch(lines, program)
    assert whole[0] == "NVIDIA H200"
    # What is in no slice stands at the GPU.
    assert whole[2:] == [None, 0, False, [8]]
    assert slices == [
        ["NVIDIA H200 MIG 1g.18gb", "MIG-1", None, 900, True, [7]],
        ["MIG slice", "MIG-1001", None, None, True, []],
    ]


def test_throughput_is_read_for_details_only(watch):
    program = """
reader = start()
names = "pcie_sent_bytes_per_s", "pcie_received_bytes_per_s"
print([of(reader.read(details=details)[0], *names) for details in (False, True)])
"""
    assert watch("0.throughput 2 3", program) == [[None, None], [2048.0, 3072.0]]


def test_a_card_that_knows_little_has_nothing_made_up(watch, on_machine):
    lines = "\n".join(
        f"0.{key} -"
        for key in (
            *("utilization", "power", "field.186", "field.82", "field.3", "field.4", "slowdowns"),
            *("violation.0", "violation.1", "remapped", "memory_clock", "pcie", "width", "clock"),
        )
    )
    program = """
gpu = start().read()[0]
print({name: value for name, value in dataclasses.asdict(gpu).items() if value is None})
"""
    unknown = watch(lines, program)
    assert unknown.keys() >= {
        *("utilization_ratio", "tensor_ratio", "power_watts", "memory_temperature_c", "fan_ratio"),
        *("sm_clock_mhz", "memory_clock_mhz", "energy_joules", "corrected_errors", "row_remaps"),
    }
    assert "error" in unknown


def test_a_lost_gpu_is_a_row_with_its_reason_and_comes_back(watch):
    lines = "count 2\n1.name Other\n1.uuid GPU-1\n1.temperature 40\n1.lost 0 | 1000ms 15 | 3000ms 0"
    program = """
reader, found = start(), []
for second in (0, 1, 2, 3):
    at(second)
    gpus = reader.read()
    found.append([of(gpu, "name", "uuid", "temperature_c", "error")[2 * index:]
                  for index, gpu in enumerate(gpus)])
    assert [gpu.index for gpu in gpus] == [0, 1] and gpus[1].uuid == "GPU-1"
print([rows[1] for rows in found])
"""
    assert watch(lines, program) == [
        [40.0, None],
        [None, "GPU is lost"],
        [None, "GPU is lost"],
        [40.0, None],
    ]


def test_the_slices_of_a_lost_gpu_stay_rows(watch):
    lines = "0.mig 1 1\n0.mig_devices 1\n999.uuid MIG-1\n0.lost 0 | 1000ms 15"
    program = """
reader = start()
reader.read()
at(1)
print([(gpu.uuid[:5], (gpu.parent_uuid or "")[:5], gpu.error) for gpu in reader.read()])
"""
    lost = "GPU is lost"
    assert watch(lines, program) == [("GPU-7", "", lost), ("MIG-1", "GPU-7", lost)]


def test_a_gpu_that_was_never_read_has_a_key_of_its_own(watch):
    lines = "count 3\n1.error 15\n2.error 16"
    program = "print([of(gpu, 'uuid', 'name', 'error') for gpu in start().read()[1:]])"
    assert watch(lines, program) == [
        ["nvidia:1", "NVIDIA GPU", "GPU is lost"],
        ["nvidia:2", "NVIDIA GPU", "GPU requires restart"],
    ]


def test_a_gpu_that_hangs_keeps_no_other_from_being_read(watch):
    lines = "count 2\n1.name Other\n1.uuid GPU-1\n1.temperature 40\n1.hang 0 | 1000ms 1 | 9000ms 0"
    program = """
reader = start(patience_s=0.1)
def read_until(is_it):
    # A machine may be slow; what does not come within a minute does not come.
    until = time.monotonic() + 60
    while not is_it(gpus := reader.read()):
        assert time.monotonic() < until, gpus
    return gpus
found = []
read_until(lambda gpus: not gpus[0].error and not gpus[1].error)
for second in (1, 5):
    at(second)
    gpus = read_until(lambda gpus: not gpus[0].error and gpus[1].error)
    found.append(of(gpus[1], "name", "uuid", "temperature_c", "error"))
at(9)
gpus = read_until(lambda gpus: not gpus[1].error)
reader.close()
print([*found, of(gpus[1], "temperature_c", "error")])
"""
    first, second, last = watch(lines, program)
    assert first[:3] == second[:3] == ["Other", "GPU-1", None]
    assert second[3] == "the driver has not answered for 4 s"
    assert last == [40.0, None]


def test_a_reader_that_hangs_can_be_let_go(watch):
    program = """
reader = start(patience_s=0.1)
at(1)
with reader:
    gpu, = reader.read()
print(gpu.error is not None)
"""
    assert watch("0.hang 0 | 1000ms 1", program) is True


def test_the_drivers_version_is_known(watch):
    assert watch("", "print([start().driver_version])") == ["580.126.20"]


@pytest.mark.parametrize(
    ("lines", "text", "is_absence"),
    [
        ("init 18", "NVML: RM has detected an NVML/RM version mismatch.", False),
        ("init 9", "NVML: Driver Not Loaded", True),
    ],
)
def test_a_library_that_does_not_start_is_a_reason(watch, lines, text, is_absence):
    program = "print(of(start(), 'text', 'is_absence'))"
    assert watch(lines, program) == [text, is_absence]


def test_a_library_that_hangs_as_it_starts_is_a_reason(watch):
    program = """
import tarmac.machine.live_reader as module
module._START_S = 0.1
print(of(start(), "text", "is_absence"))
"""
    text, is_absence = watch("init_hang 1", program)
    assert (text.startswith("NVML: the driver has not answered"), is_absence) == (True, False)


@pytest.mark.parametrize(("module", "lines"), [("nvml_calls", "init_hang"), ("nvml", "0.hang")])
def test_a_hung_driver_is_waited_for_once_until_it_answers(watch, module, lines):
    program = f"""
from tarmac.machine import nvml, nvml_calls
def is_silent():
    with nvml.open_nvml() as opened:
        return isinstance(opened, NvmlProblem) or opened.read_gpus()[0].error is not None
nvml._PATIENCE_S = 0.1
silences, asker = [is_silent()], {module}.Asker
# No other query is made, and so none is waited for.
{module}.Asker = None
silences.append(is_silent())
{module}.Asker, nvml._PATIENCE_S = asker, 200.0
at(1)
until = time.monotonic() + 60
while is_silent():
    assert time.monotonic() < until
print(silences)
"""
    assert watch(f"{lines} 1 | 1000ms 0", program) == [True, True]


def test_xids_are_told_once_each(watch):
    lines = (
        "count 2\n0.event_types 8\n1.event_types 9\n1.uuid GPU-1\n1.address 00000000:1A:00.0\n"
        "1.event 1000 8 79\n1.event 1000 1 5\n0.event 2000 8 94"
    )
    program = """
reader, found = start(), []
for second in (0, 1, 1, 2):
    at(second)
    found.append([(xid.number, xid.gpu_uuid[:5], xid.pci_address, xid.at.tzinfo is not None)
                  for xid in reader.new_xids()])
print(found)
"""
    assert watch(lines, program) == [
        [],
        [(79, "GPU-1", "0000:1a:00.0", True)],
        [],
        [(94, "GPU-7", "0000:19:00.0", True)],
    ]


def test_a_driver_without_events_tells_of_none(watch):
    assert watch("0.event_types -", "print(start().new_xids())") == ()


def test_cards_of_amd_come_after_nvidias_and_without_them(watch, tmp_path):
    device = tmp_path / "sys/bus/pci/devices/0000:75:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x1002")
    (device / "mem_info_vram_total").write_text("1000")
    program = f"""
with start(root=Path({str(tmp_path)!r})) as reader:
    gpus = [(gpu.maker, gpu.memory_total_bytes) for gpu in reader.read()]
print([gpus, reader.problem and reader.problem.text])
"""
    assert watch("", program) == [[("nvidia", 150754820096), ("amd", 1000)], None]
    assert watch("init 9", program) == [[("amd", 1000)], "NVML: Driver Not Loaded"]
