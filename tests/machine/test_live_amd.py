"""AMD's cards that are read again and again, by files as their driver has them."""

from __future__ import annotations

import shutil

import pytest

from tarmac.machine import LiveProcess
from tarmac.machine.live_amd import AmdReader

# Nodes of a machine with a MI325X, shortened: 29952 is bus 0x75.
_NODE = "simd_count 304\ngfx_target_version 90402\nlocation_id 29952\ndomain 0\n"
_DEVICE = "sys/bus/pci/devices/0000:75:00.0"


@pytest.fixture
def write(tmp_path):
    """Return a function that writes files of a machine with one card."""

    def files(changed: dict[str, str]) -> None:
        for name, text in changed.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    files(
        {
            f"{_DEVICE}/vendor": "0x1002",
            f"{_DEVICE}/unique_id": "90ABCDEF12345678",
            f"{_DEVICE}/product_name": "AMD Instinct MI325X OAM",
            f"{_DEVICE}/mem_info_vram_total": "274877906944",
            f"{_DEVICE}/mem_info_vram_used": "1000000",
            f"{_DEVICE}/gpu_busy_percent": "87",
            f"{_DEVICE}/mem_busy_percent": "12",
            f"{_DEVICE}/current_link_speed": "32.0 GT/s PCIe",
            f"{_DEVICE}/max_link_speed": "32.0 GT/s PCIe",
            f"{_DEVICE}/current_link_width": "16",
            f"{_DEVICE}/max_link_width": "16",
            f"{_DEVICE}/pp_dpm_sclk": "0: 132Mhz *\n1: 2100Mhz",
            f"{_DEVICE}/hwmon/hwmon4/temp2_input": "46000",
            f"{_DEVICE}/hwmon/hwmon4/temp3_input": "41000",
            f"{_DEVICE}/hwmon/hwmon4/power1_input": "137000000",
            f"{_DEVICE}/hwmon/hwmon4/power1_cap": "1000000000",
            f"{_DEVICE}/hwmon/hwmon4/freq1_input": "2100000000",
            f"{_DEVICE}/ras/umc_err_count": "ue: 2\nce: 7",
            "sys/class/kfd/kfd/topology/nodes/1/properties": _NODE,
            "sys/class/kfd/kfd/topology/nodes/1/gpu_id": "51234",
            "sys/class/kfd/kfd/proc/77/vram_51234": "4096",
            "sys/class/kfd/kfd/proc/78/vram_51234": "0",
            "sys/class/kfd/kfd/proc/79/vram_9": "4096",
        }
    )
    return files


def test_a_card_is_described_in_the_units_of_its_fields(write, tmp_path):
    (gpu,) = AmdReader(tmp_path).read()
    assert (gpu.name, gpu.maker, gpu.uuid) == (
        *("AMD Instinct MI325X OAM", "amd", "GPU-90abcdef12345678"),
    )
    assert gpu.pci_address == "0000:75:00.0"
    assert (gpu.utilization_ratio, gpu.memory_utilization_ratio) == (0.87, 0.12)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (1000000, 274877906944)
    assert (gpu.temperature_c, gpu.memory_temperature_c) == (46.0, 41.0)
    assert (gpu.power_watts, gpu.power_limit_watts) == (137.0, 1000.0)
    assert (gpu.sm_clock_mhz, gpu.max_sm_clock_mhz) == (2100, 2100)
    assert (gpu.pcie_generation, gpu.pcie_width) == (5, 16)
    assert (gpu.uncorrected_errors, gpu.corrected_errors) == (2, 7)
    # What these files do not tell.
    assert (gpu.energy_joules, gpu.fan_ratio, gpu.tensor_ratio) == (None, None, None)
    # Who holds nothing of it does not use it; numbers of the machine's are not this namespace's.
    assert gpu.processes == (LiveProcess(pid=None, driver_pid=77, memory_bytes=4096),)


def test_values_follow_the_card_and_slow_ones_every_five_seconds(write, tmp_path):
    now = [0.0]
    reader = AmdReader(tmp_path, clock=lambda: now[0])
    reader.read()
    write(
        {
            f"{_DEVICE}/gpu_busy_percent": "3",
            f"{_DEVICE}/hwmon/hwmon4/power1_cap": "700000000",
            "sys/class/kfd/kfd/proc/80/vram_51234": "8192",
        }
    )
    now[0] = 1.0
    (soon,) = reader.read()
    assert (soon.utilization_ratio, soon.power_limit_watts) == (0.03, 1000.0)
    assert [process.driver_pid for process in soon.processes] == [77]
    now[0] = 5.0
    (later,) = reader.read()
    assert later.power_limit_watts == 700.0
    assert [process.driver_pid for process in later.processes] == [77, 80]


def test_a_card_that_knows_little_has_nothing_made_up(tmp_path):
    (tmp_path / _DEVICE).mkdir(parents=True)
    (tmp_path / _DEVICE / "vendor").write_text("0x1002\n")
    (tmp_path / _DEVICE / "mem_info_vram_total").write_text("half a numb")
    (tmp_path / _DEVICE / "gpu_busy_percent").write_text("6553500\n")
    (gpu,) = AmdReader(tmp_path).read()
    assert (gpu.name, gpu.uuid) == ("AMD GPU", "amd:0000:75:00.0")
    assert (gpu.memory_total_bytes, gpu.utilization_ratio, gpu.power_watts) == (None, None, None)


def test_a_card_that_was_taken_out_is_a_row_with_its_reason(write, tmp_path):
    reader = AmdReader(tmp_path)
    reader.read()
    shutil.rmtree(tmp_path / _DEVICE)
    (gpu,) = reader.read()
    assert (gpu.uuid, gpu.error) == ("GPU-90abcdef12345678", "it is no longer on the bus")


def test_a_machine_without_such_a_card_has_none(tmp_path):
    reader = AmdReader(tmp_path)
    assert (reader.has_cards, reader.read()) == (False, ())


@pytest.fixture
def is_all_seen(tmp_path):
    """Have this namespace be the machine's."""
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026531836]")


def _open_card(tmp_path, pid: int, number: int, **facts: str) -> None:
    for folder in ("fd", "fdinfo"):
        (tmp_path / f"proc/{pid}/{folder}").mkdir(parents=True, exist_ok=True)
    link = tmp_path / f"proc/{pid}/fd/{number}"
    if not link.is_symlink():
        link.symlink_to("/dev/dri/renderD128")
    lines = {"drm-driver": "amdgpu", "drm-pdev": "0000:75:00.0", "drm-client-id": str(number)}
    lines |= {f"drm-{name.replace('_', '-')}": value for name, value in facts.items()}
    text = "".join(f"{name}:\t{value}\n" for name, value in lines.items())
    (tmp_path / f"proc/{pid}/fdinfo/{number}").write_text(f"pos:\t0\n{text}")


@pytest.mark.usefixtures("is_all_seen")
def test_open_files_tell_how_busy_a_process_keeps_a_card(write, tmp_path):
    now = [0.0]
    reader = AmdReader(tmp_path, clock=lambda: now[0])
    _open_card(tmp_path, 77, 5, memory_vram="4 KiB", engine_compute="1000000000 ns")
    _open_card(tmp_path, 77, 6, memory_vram="2 MiB", engine_compute="0 ns", client_id="5")
    _open_card(tmp_path, 90, 7, resident_vram="1 MiB", engine_gfx="5 ns")
    _open_card(tmp_path, 91, 7, pdev="0000:01:00.0", memory_vram="1 MiB")
    _open_card(tmp_path, 92, 7, driver="i915", memory_vram="1 MiB")
    (first,) = reader.read()
    assert first.processes == (
        LiveProcess(pid=77, driver_pid=77, memory_bytes=4096),
        LiveProcess(pid=90, driver_pid=90, kind="graphics", memory_bytes=2**20),
    )
    _open_card(tmp_path, 77, 5, memory_vram="4 KiB", engine_compute="3000000000 ns")
    write({"sys/class/kfd/kfd/proc/80/vram_51234": "8192"})
    now[0] = 5.0
    (later,) = reader.read()
    assert [(row.pid, row.sm_ratio, row.memory_bytes) for row in later.processes] == [
        *((77, 0.4, 4096), (80, None, 8192), (90, 0.0, 2**20)),
    ]


def test_in_a_container_its_own_processes_count_and_not_the_machines(write, tmp_path):
    _open_card(tmp_path, 12, 5, memory_vram="4 KiB")
    (gpu,) = AmdReader(tmp_path).read()
    # KFD's 77 may be this one.
    assert [(row.pid, row.memory_bytes) for row in gpu.processes] == [(12, 4096)]
