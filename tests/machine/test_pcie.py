"""How cards are joined to their processors, read from trees as the kernel has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.machine import count_nvswitches, read_pcie_path

GEN1, GEN3, GEN4, GEN5 = "2.5 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe"

# Where a device is, its vendor, class, most speed and width, speed and width now: as `lspci -tv`
# and the files below /sys/bus/pci/devices showed them.
HGX = {
    # One of eight H200 with its network card, below a switch at the first of two processors.
    "pci0000:16/0000:16:01.0": ("0x8086", "0x060400", GEN5, 16, GEN5, 16),
    "pci0000:16/0000:16:01.0/0000:17:00.0": ("0x1000", "0x060400", GEN5, 16, GEN5, 16),
    "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0": (
        *("0x1000", "0x060400", GEN5, 16),
        *(GEN1, 16),
    ),
    "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0": (
        *("0x10de", "0x030200", GEN5, 16),
        *(GEN1, 16),
    ),
    "pci0000:96/0000:96:05.0": ("0x8086", "0x060400", GEN4, 2, GEN4, 2),
    "pci0000:96/0000:96:05.0/0000:97:00.0": ("0x10de", "0x068000", GEN4, 2, GEN4, 2),
    "pci0000:96/0000:96:06.0": ("0x8086", "0x060400", GEN4, 2, GEN4, 2),
    "pci0000:96/0000:96:06.0/0000:98:00.0": ("0x10de", "0x068000", GEN4, 2, GEN4, 2),
}
WORKSTATION = {
    # A card with 16 lanes in the second slot of a desktop's board, which has eight.
    "pci0000:00/0000:00:01.1": ("0x1022", "0x060400", GEN5, 8, GEN1, 8),
    "pci0000:00/0000:00:01.1/0000:01:00.0": ("0x10de", "0x030000", GEN4, 16, GEN1, 8),
}
RISER = {
    "pci0000:00/0000:00:01.0": ("0x8086", "0x060400", GEN3, 16, GEN1, 1),
    "pci0000:00/0000:00:01.0/0000:01:00.0": ("0x10de", "0x030000", GEN3, 16, GEN1, 1),
}
CHIPSET = {
    # At a root port of the chipset that has one lane.
    "pci0000:00/0000:00:1c.4": ("0x8086", "0x060400", GEN3, 1, GEN3, 1),
    "pci0000:00/0000:00:1c.4/0000:05:00.0": ("0x10de", "0x030000", GEN4, 16, GEN3, 1),
}
INSTINCT = {
    # The card's own bridges are of AMD too; what is between them and the chip is no slot.
    "pci0000:00/0000:00:01.1": ("0x1022", "0x060400", GEN5, 16, GEN4, 8),
    "pci0000:00/0000:00:01.1/0000:01:00.0": ("0x1002", "0x060400", GEN4, 16, GEN4, 8),
    "pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0": ("0x1002", "0x060400", GEN4, 16, GEN4, 16),
    "pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0": (
        *("0x1002", "0x038000", GEN4, 16),
        *(GEN4, 16),
    ),
}
GUEST = {"pci0000:00/0000:00:1e.0": ("0x10de", "0x030200", GEN3, 16, GEN3, 8)}
QEMU = {
    # The emulated port says that it has one lane of the first generation.
    "pci0000:00/0000:00:02.0": ("0x1b36", "0x060400", GEN1, 1, GEN1, 1),
    "pci0000:00/0000:00:02.0/0000:01:00.0": ("0x10de", "0x030200", GEN5, 16, GEN5, 16),
}


def grow(root: Path, tree) -> Path:
    """Write a tree of devices below a root, with the links to them that the kernel has."""
    names = ("vendor", "class", "max_link_speed", "max_link_width")
    links = root / "sys/bus/pci/devices"
    links.mkdir(parents=True)
    for where, facts in tree.items():
        device = root / "sys/devices" / where
        device.mkdir(parents=True)
        for name, fact in zip(
            (*names, "current_link_speed", "current_link_width"), facts, strict=True
        ):
            (device / name).write_text(f"{fact}\n")
        (device / "numa_node").write_text("-1\n" if len(tree) < 4 else "0\n")
        (links / device.name).symlink_to(Path("../../../devices") / where)
    return root


def test_a_gpu_below_a_switch_is_joined_by_the_links_of_both(tmp_path):
    root = grow(tmp_path, HGX)
    path = read_pcie_path("0000:19:00.0", root)
    assert path is not None
    assert path.bridges == (
        *("pci0000:16", "0000:16:01.0", "0000:17:00.0"),
        *("0000:18:00.0", "0000:19:00.0"),
    )
    assert [(port.speed, port.width) for port in path.upstream] == [(32.0, 16)]
    assert path.numa_node == 0
    # Sixteen lanes of 32 GT/s, of which 128 of 130 bits are data.
    assert path.bytes_per_s == pytest.approx(63e9, rel=0.01)
    assert count_nvswitches(root) == 2


@pytest.mark.parametrize(
    ("tree", "address", "lanes", "gbytes"),
    [
        (WORKSTATION, "0000:01:00.0", (8, 8), 15.75),
        (RISER, "0000:01:00.0", (1, 16), 15.75),
        (CHIPSET, "0000:05:00.0", (1, 1), 0.985),
        (INSTINCT, "0000:03:00.0", (8, 16), 31.5),
    ],
)
def test_card_and_slot_say_what_their_link_can_be(tmp_path, tree, address, lanes, gbytes):
    path = read_pcie_path(address, grow(tmp_path, tree))
    assert path is not None
    assert path.slot is not None
    assert (path.card.width_now, path.width) == lanes
    assert path.bytes_per_s == pytest.approx(gbytes * 1e9, rel=0.01)


@pytest.mark.parametrize(
    ("tree", "address", "width", "speed"),
    [(GUEST, "0000:00:1e.0", 8, 8.0), (QEMU, "0000:01:00.0", 16, 32.0)],
)
def test_a_virtual_machine_shows_no_slot(tmp_path, tree, address, width, speed):
    path = read_pcie_path(address, grow(tmp_path, tree))
    assert path is not None
    assert path.slot is None
    assert (path.width, path.speed) == (width, speed)
    assert path.numa_node is None


def test_what_the_kernel_does_not_tell_is_not_known(tmp_path):
    assert read_pcie_path("0000:01:00.0", tmp_path) is None
    root = grow(
        tmp_path, {"pci0000:00/0000:00:02.0": ("0x8086", "0x030000", "Unknown", 255, "", 0)}
    )
    assert read_pcie_path("0000:00:02.0", root) is None
