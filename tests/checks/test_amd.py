"""AMD's GPUs as the kernel's files show them, in the forms that real machines have."""

from __future__ import annotations

import pytest

from tarmac.checks.amd import AmdGpu, gfx_name, read_amd
from tarmac.checks.evidence import Evidence
from tarmac.checks.inventory import read_inventory
from tarmac.checks.report.make import make_report

# Nodes of a machine with a MI325X, shortened: 29952 is bus 0x75.
CPU = "cpu_cores_count 128\nsimd_count 0\ngfx_target_version 0\nlocation_id 0\ndomain 0\n"
GPU = (
    "cpu_cores_count 0\nsimd_count 304\ngfx_target_version 90402\nvendor_id 4098\n"
    "device_id 29856\nlocation_id 29952\ndomain 0\ndrm_render_minor 128\n"
    "hive_id 11638818706288400384\nlocal_mem_size 206142726144\nunique_id 9895604649984\n"
)


@pytest.fixture
def root(tmp_path):
    """Return the root of a machine with one GPU of AMD's."""
    device = tmp_path / "sys/bus/pci/devices/0000:75:00.0"
    files = {
        tmp_path / "sys/class/kfd/kfd/topology/nodes/0/properties": CPU,
        tmp_path / "sys/class/kfd/kfd/topology/nodes/1/properties": GPU,
        tmp_path / "proc/sys/kernel/numa_balancing": "1\n",
        device / "vendor": "0x1002\n",
        device / "device": "0x74a0\n",
        device / "class": "0x120000\n",
        device / "hwmon/hwmon4/temp2_input": "46000\n",
        device / "hwmon/hwmon4/temp3_input": "41000\n",
        device / "hwmon/hwmon4/power1_average": "137000000\n",
        device / "hwmon/hwmon4/power1_cap": "750000000\n",
        device / "ras/umc_err_count": "ue: 2\nce: 7\nde: 0\n",
        device / "ras/gfx_err_count": "ue: 0\nce: 1\n",
        tmp_path / "dev/kfd": "",
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "dev/shm").mkdir()
    return tmp_path


def test_a_gpu_is_described_from_the_kernels_files(root):
    found = read_amd(root)
    assert found.gpus == (
        AmdGpu(
            address="0000:75:00.0",
            gfx="gfx942",
            temperature_c={"junction": 46, "memory": 41},
            power_watts={"now": 137.0, "limit": 750.0},
            uncorrected_errors=2,
            corrected_errors=8,
        ),
    )
    assert (found.kfd, found.numa_balancing) == ("open", True)


def test_a_card_with_errors_is_a_failure_in_the_report(root):
    report = make_report(Evidence(inventory=read_inventory(root, {})), seconds=1)
    verdict = next(v for v in report.devices if v.name == "card 0000:75:00.0")
    assert verdict.answer == "failure"
    assert "uncorrected errors of an AMD GPU" in verdict.text
    assert not report.ok


def test_a_user_outside_the_group_is_told_of_it(open_directory, second_user):
    (open_directory / "dev").mkdir(mode=0o755)
    kfd = open_directory / "dev/kfd"
    kfd.touch()
    kfd.chmod(0o660)
    assert read_amd(open_directory).kfd == "open"
    denied = second_user(lambda: read_amd(open_directory))
    assert (denied.kfd, denied.kfd_group) == ("denied", "root")


def test_a_machine_without_such_a_card_has_none(tmp_path):
    found = read_amd(tmp_path)
    assert (found.gpus, found.kfd) == ((), "absent")


@pytest.mark.parametrize("text", ["", "gfx_target_version\n", "gfx_target_version x 1\n", "\0" * 9])
def test_a_node_of_another_form_is_passed_over(root, text):
    (root / "sys/class/kfd/kfd/topology/nodes/1/properties").write_text(text)
    assert read_amd(root).gpus == ()


@pytest.mark.parametrize(
    ("version", "name"),
    [(90402, "gfx942"), (90010, "gfx90a"), (100302, "gfx1032"), (110501, "gfx1151")],
)
def test_chips_have_their_compilers_names(version, name):
    assert gfx_name(version) == name
