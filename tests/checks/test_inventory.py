"""What the machine tells without any framework: through NVML, and from the kernel's files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from forked import run_python
from tarmac.checks.evidence import Evidence
from tarmac.checks.inventory import identify_machine, read_inventory
from tarmac.checks.kernel_reading import KernelLog
from tarmac.checks.libraries import find_libraries
from tarmac.checks.rules.findings import find
from tarmac.machine import NvlinkPair
from tarmac.process_ids import boot_id


def codes(inventory) -> set[str]:
    # These machines have few CPUs for their GPUs, and a kernel's log, that are this machine's.
    inventory = inventory.model_copy(update={"kernel_log": (), "kernel": KernelLog()})
    return {finding.code for finding in find(Evidence(inventory=inventory))} - {"cgroup-cpu"}


def test_a_healthy_gpu_is_described(inventory_of):
    inventory = inventory_of("healthy")
    assert inventory.driver.version == "580.126.20"
    assert inventory.driver.cuda == "13.0"
    assert inventory.driver.nvml_error is None
    (gpu,) = inventory.gpus
    assert gpu.name == "NVIDIA H200"
    assert gpu.uuid == "GPU-7d3c132a-675f-077e-3bf7-99d79213d062"
    assert gpu.address == "0000:19:00.0"
    assert gpu.memory_bytes == 150754820096
    assert gpu.capability == (9, 0)
    assert gpu.pcie == {"generation": 5, "width": 16, "max_generation": 5, "max_width": 16}
    assert gpu.nvlinks == (True,) * 18
    assert gpu.power_watts == {"now": 76.0, "limit": 700.0}
    assert (gpu.ecc, gpu.mig, gpu.persistence) == (True, False, True)
    assert gpu.slowdowns == ()
    assert (gpu.corrected_errors, gpu.uncorrected_errors, gpu.retired_pages) == (0, 0, 0)
    assert gpu.memory_clock_mhz == {"now": 3201, "max": 3201}
    assert (gpu.compute_mode, gpu.processes) == ("default", ())
    assert codes(inventory) == set()


def test_a_machine_is_known_by_its_boot(tmp_path):
    assert read_inventory().host.boot_id == identify_machine()[0] == boot_id()
    assert identify_machine(tmp_path) == (None, None)


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        ("throttled", {"throttle-thermal"}),
        # An idle GPU's clocks say nothing of its power limit.
        ("power-capped", set()),
        ("power-brake", {"throttle-hardware"}),
        ("ecc-errors", {"ecc"}),
        ("narrow-link", {"pcie-narrow", "nvlink-down"}),
        ("mig", {"mig-empty"}),
        ("mig-sliced", set()),
        ("exclusive", {"exclusive-mode", "mem-held"}),
        ("prohibited", {"compute-prohibited"}),
        ("no-persistence", {"persistence-off"}),
        ("fell-off-bus", {"fell-off-bus"}),
        ("driver-mismatch", {"driver-mismatch"}),
        ("unknown-error", {"nvml-unknown"}),
        ("eight", set()),
        ("h100", set()),
        ("old-card", {"ecc", "mem-held"}),
        ("loaded", set()),
        ("hot-under-load", set()),
        ("requires-reset", {"reset-required"}),
        ("recovery-reset", {"reset-required"}),
        ("recovery-drain-and-reset", {"reset-required"}),
        ("recovery-reboot", {"reboot-required"}),
        ("recovery-drain", {"drain-required"}),
        ("fabric-not-started", {"fabric-manager"}),
        ("fabric-failed", {"fabric-manager"}),
        ("fabric-degraded", {"fabric-degraded"}),
        ("sram-errors", {"sram-errors"}),
        ("memory-worn", {"memory-worn", "ecc"}),
        ("inforom-corrupt", {"inforom-corrupt"}),
        ("power-limited", {"power-limited"}),
        ("clocks-lowered", {"clocks-lowered"}),
        ("nvlink-errors", {"nvlink-errors"}),
        ("vgpu-unlicensed", {"vgpu-unlicensed"}),
        ("mem-held-unseen", {"mem-held-unseen"}),
        ("pair", set()),
        ("gpus-differ", {"gpus-differ"}),
        # Cards of one model by two makers have each their own VBIOS and power limit.
        ("two-makers", set()),
    ],
)
def test_what_nvml_says_of_a_machine_is_found(inventory_of, machine, found):
    assert codes(inventory_of(machine)) == found


def test_a_lost_gpu_does_not_hide_the_others(inventory_of):
    lost, other = inventory_of("fell-off-bus").gpus
    assert lost.error == "GPU is lost"
    assert other.name == "NVIDIA H200"


def test_eight_gpus_have_eight_names(inventory_of):
    gpus = inventory_of("eight").gpus
    assert len({gpu.uuid for gpu in gpus}) == 8


def test_the_gpus_that_a_bridge_joins_are_known_with_their_links(inventory_of):
    inventory = inventory_of("bridged")
    assert inventory.topology.nvlink_pairs == (NvlinkPair(first=0, second=1, num_links=4),)
    # The other two have no bridge, and lack none.
    assert "nvlink-down" not in codes(inventory)


def test_an_old_driver_tells_of_processes_and_pages_too(inventory_of):
    (gpu,) = inventory_of("old-card").gpus
    assert gpu.retired_pages == 5
    assert [(process.pid, process.memory_bytes) for process in gpu.processes] == [
        (77, 20_000_000),
        (4242, 9_000_000_000),
    ]


def test_our_own_probes_are_not_others_processes(on_machine, tmp_path):
    # The inventory is read by a child of this process, and is told of its own child.
    machine = tmp_path / "held.txt"
    program = (
        "import subprocess, sys\n"
        "from tarmac.checks.inventory import read_inventory\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"line = f'count 1\\n0.name x\\n0.process {{child.pid}} 9000000000\\n'\n"
        f"open({str(machine)!r}, 'w').write(line)\n"
        "print(len(read_inventory().gpus[0].processes))\n"
        "child.kill()\n"
    )
    environment = on_machine("healthy", NVML_STAND_IN=str(machine))
    done = run_python("-c", program, env=environment, check=True)
    assert done.stdout == "0\n"


@pytest.mark.parametrize(
    ("machine", "variables", "expected"),
    [
        ("healthy", {}, ["GPU-7d3c132a-675f-077e-3bf7-99d79213d062"]),
        ("healthy", {"CUDA_VISIBLE_DEVICES": ""}, []),
        ("mig", {}, []),
        ("unknown-error", {}, "RequestError"),
        ("fell-off-bus", {}, "RequestError"),
        ("fell-off-bus", {"CUDA_VISIBLE_DEVICES": "1"}, 1),
        ("eight", {"CUDA_VISIBLE_DEVICES": "0,3"}, 2),
    ],
)
def test_what_jobs_may_use_is_what_the_check_sees(on_machine, machine, variables, expected):
    program = (
        "import os\n"
        "from tarmac import RequestError\n"
        "from tarmac.machine import list_gpus, read_gpus_in_time\n"
        "try: print([gpu.uuid for gpu in list_gpus(read_gpus_in_time(), os.environ)])\n"
        "except RequestError as error: print(['RequestError'])"
    )
    done = run_python("-c", program, env=on_machine(machine, **variables), check=True)
    uuids = ast.literal_eval(done.stdout)
    if isinstance(expected, int):
        assert len(uuids) == expected
    else:
        assert uuids == ([expected] if isinstance(expected, str) else expected)


def test_partitions_are_named(inventory_of):
    (gpu,) = inventory_of("mig-sliced").gpus
    assert len(gpu.mig_devices) == 2


@pytest.mark.parametrize("value", ["", "-1", "1", "GPU-none", "0,1"])
def test_a_variable_that_hides_gpus_is_found(inventory_of, value):
    assert "no-visible" in codes(inventory_of("healthy", CUDA_VISIBLE_DEVICES=value))


@pytest.mark.parametrize("value", ["0", "GPU-7d3c132a", "GPU-7d3c132a-675f-077e-3bf7-99d79213d062"])
def test_a_variable_that_chooses_gpus_is_no_finding(inventory_of, value):
    assert codes(inventory_of("healthy", CUDA_VISIBLE_DEVICES=value)) == set()


def test_a_machine_without_a_driver_is_described():
    inventory = read_inventory()
    assert inventory.host.cores >= 1
    assert inventory.limits.cpus
    assert inventory.limits.shm_bytes


@pytest.fixture
def root(tmp_path):
    """Return a function that makes a file under a root of our own."""

    def make(path: str, text: str = "") -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    for name in ("dev/shm", "sys/bus/pci/devices"):
        (tmp_path / name).mkdir(parents=True)
    make.path = tmp_path  # type: ignore[attr-defined]
    return make


def test_cards_are_found_on_the_bus_without_a_driver(root):
    device = "sys/bus/pci/devices/0000:01:00.0"
    root(f"{device}/vendor", "0x10de\n")
    root(f"{device}/device", "0x2330\n")
    root(f"{device}/class", "0x030200\n")
    root("sys/bus/pci/devices/0000:02:00.0/vendor", "0x10de\n")
    root("sys/bus/pci/devices/0000:02:00.0/class", "0x040300\n")
    root("proc/modules", "nouveau 1 0 - Live 0x0\next4 1 0 - Live 0x0\n")
    inventory = read_inventory(root.path, {})
    (card,) = inventory.cards
    assert (card.address, card.vendor, card.device) == ("0000:01:00.0", "nvidia", "0x2330")
    assert inventory.driver.modules == ("nouveau",)
    assert codes(inventory) == {"nouveau-loaded"}


def test_amds_cards_are_described_from_the_kernels_files(root):
    device = "sys/bus/pci/devices/0000:03:00.0"
    root(f"{device}/vendor", "0x1002\n")
    root(f"{device}/device", "0x74a1\n")
    root(f"{device}/class", "0x120000\n")
    root(f"{device}/mem_info_vram_total", "206141652992\n")
    root(f"{device}/mem_info_vram_used", "301989888\n")
    root(f"{device}/gpu_busy_percent", "3\n")
    root(f"{device}/current_link_speed", "32.0 GT/s PCIe\n")
    root(f"{device}/current_link_width", "16\n")
    root("proc/modules", "amdgpu 1 0 - Live 0x0\n")
    inventory = read_inventory(root.path, {})
    (card,) = inventory.cards
    assert (card.vendor, card.memory_bytes) == ("amd", 206141652992)
    assert (card.used_bytes, card.busy) == (301989888, 3)
    assert card.link == {"now": "32.0 GT/s PCIe x16"}
    assert codes(inventory) == set()


@pytest.mark.parametrize(
    ("cpuinfo", "missing"),
    [
        # A Xeon of 2011, one of 2012, and one of today.
        ("model name\t: X5690\nflags\t\t: fpu sse4_2 popcnt\n", ("avx", "avx2", "fma")),
        ("flags\t\t: fpu avx f16c\n", ("avx2", "fma")),
        ("flags\t\t: fpu avx avx2 fma avx512f\n", ()),
        # Arm has other instructions, and other builds.
        ("Features\t: fp asimd evtstrm aes\n", ()),
    ],
)
def test_what_a_cpu_lacks_of_what_builds_use_is_known(root, cpuinfo, missing):
    root("proc/cpuinfo", cpuinfo)
    assert read_inventory(root.path, {}).missing_instructions == missing


def test_variables_that_slow_gpus_down_are_read(root):
    variables = {"COMPUTE_PROFILE": "1", "NSIGHT_CUDA_DEBUGGER": "1", "HOME": "/root"}
    environment = read_inventory(root.path, variables).environment
    assert environment == {"COMPUTE_PROFILE": "1", "NSIGHT_CUDA_DEBUGGER": "1"}


def test_apples_gpu_is_known_by_its_chip(root):
    # As Linux on a MacBook Air of 2020 has it.
    root("proc/device-tree/compatible", "apple,j313\0apple,t8103\0apple,arm-platform\0")
    (card,) = read_inventory(root.path, {}).cards
    assert (card.vendor, card.device) == ("apple", "apple,t8103")


def test_the_library_that_would_be_loaded_is_the_first_that_is_found(tmp_path):
    packages, first = tmp_path / "site-packages", tmp_path / "cuda/lib64"
    for path in (
        packages / "nvidia/cudnn/lib/libcudnn.so.9",
        packages / "nvidia/cudnn/lib/libcudnn_ops.so.9",
        packages / "nvidia/cublas/lib/libcublasLt.so.13",
        packages / "nvidia/nccl/lib/libnccl.so.2",
        first / "libcudnn.so.9",
        first / "libcurl.so.4",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = find_libraries({"LD_LIBRARY_PATH": f"/nowhere:{first}"}, packages)
    assert found["libcudnn.so.9"] == str(first / "libcudnn.so.9")
    assert found["libcudnn_ops.so.9"] == str(packages / "nvidia/cudnn/lib/libcudnn_ops.so.9")
    assert {"libcublasLt.so.13", "libnccl.so.2"} <= found.keys()
    assert "libcurl.so.4" not in found


def test_a_container_is_told_by_its_files_and_its_devices(root):
    root(".dockerenv")
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        root(f"dev/{name}")
    root("dev/nvidia-caps/nvidia-cap1")
    root("sys/fs/cgroup/cpu.max", "50000 100000\n")
    root("sys/fs/cgroup/memory.max", "1073741824\n")
    inventory = read_inventory(root.path, {})
    assert inventory.container.kind == "docker"
    assert "nvidiactl" in inventory.container.device_nodes
    assert "nvidia-caps/nvidia-cap1" in inventory.container.device_nodes
    assert inventory.limits.cpus == 0.5
    assert inventory.limits.memory_bytes == 2**30
    assert codes(inventory) == {"driver-caps"}


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("run/.containerenv", "", "podman"),
        ("run/systemd/container", "lxc\n", "lxc"),
        ("proc/version", "Linux version 5.15.90.1-microsoft-standard-WSL2", "wsl"),
        ("proc/version", "Linux version 6.1.0", None),
    ],
)
def test_other_confinements_are_told_apart(root, path, text, kind):
    root(path, text)
    assert read_inventory(root.path, {}).container.kind == kind


def test_a_cluster_user_has_apptainer(root):
    found = read_inventory(root.path, {"APPTAINER_CONTAINER": "/home/me/torch.sif"})
    assert found.container.kind == "apptainer"


def test_secrets_in_variables_stay_there(root):
    variables = {"NVIDIA_API_KEY": "nvapi-1234", "TF_TOKEN_x": "abc", "HOME": "/home/me"}
    shown = read_inventory(root.path, variables).environment
    assert shown == {"NVIDIA_API_KEY": "(set)", "TF_TOKEN_x": "(set)"}


_HANGS = """
import sys, tarmac.machine.nvml as nvml
from tarmac.checks import sampling
from tarmac.cli import main
nvml._PATIENCE_S = sampling._PATIENCE_S = 0.2
main(["check", "torch", "--quick", "--device", "cpu"])
"""


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("init_hang 1", "Could not check: machine: the driver does not answer: NVML: no answer"),
        ("0.hang 1", "Could not check: GPU 0: it does not answer: no answer for"),
        # In the midst of the questions.
        ("0.hang 0 | 20 1", "Could not check: GPU 0: it does not answer: no answer for"),
    ],
)
def test_a_check_of_a_driver_that_hangs_ends_and_says_so(on_machine, tmp_path, lines, words):
    machine = tmp_path / "machine.txt"
    healthy = Path(on_machine("healthy")["NVML_STAND_IN"]).read_text()
    machine.write_text(f"{lines}\n{healthy}")
    env = on_machine("healthy", NVML_STAND_IN=str(machine))
    done = run_python("-c", _HANGS, env=env, timeout=120)
    assert done.returncode == 3, done.stdout + done.stderr
    assert words in done.stdout
