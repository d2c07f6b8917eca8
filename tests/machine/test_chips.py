"""What is known of chips, and which names stand for which."""

from __future__ import annotations

import itertools

import pytest

from tarmac.machine import find_chip, read_chips

FIGURES = ("fp32", "bf16", "fp16", "fp8", "bandwidth")


@pytest.mark.parametrize("chip", read_chips(), ids=lambda chip: chip.name)
def test_a_row_has_figures_with_sources_and_says_which_were_not_verified(chip):
    assert chip.source.startswith("https://")
    assert set(chip.unverified) <= {name for name in FIGURES if getattr(chip, name) is not None}
    assert (chip.attainable is None) == (chip.attainable_source is None)
    assert chip.attainable is None or 0.2 < chip.attainable <= 1
    assert (chip.all_reduce_8 is None) == (chip.all_reduce_source is None)
    assert chip.names
    # Dense: on matrix units no less than on the ordinary ones, in eight bits twice as much.
    assert not chip.bf16 or chip.bf16 >= (chip.fp32 or 0)
    assert not chip.fp8 or chip.fp8 == pytest.approx(2 * (chip.bf16 or 0), rel=0.02)


def test_a_name_is_of_one_chip_or_of_chips_with_other_memory():
    by_name: dict[str, list[float | None]] = {}
    for chip in read_chips():
        for name in chip.names:
            by_name.setdefault(name, []).append(chip.memory_gib)
    for name, sizes in by_name.items():
        known = sorted(size for size in sizes if size is not None)
        assert len(known) == len(sizes) or len(sizes) == 1, name
        for smaller, larger in itertools.pairwise(known):
            assert smaller * 1.1 < larger, name


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM 80 GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("Tesla T4", "T4"),
        ("NVIDIA GH200 480GB", "GH200 96 GB"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        # Drivers before 465 left the maker out.
        ("A100-SXM4-40GB", "A100 SXM 40 GB"),
        ("GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA GeForce RTX 3090 Ti", "RTX 3090 Ti"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
    ],
)
def test_a_chip_is_known_by_the_drivers_name(name, chip):
    found = find_chip(name)
    assert found is not None
    assert found.name == chip


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "NVIDIA",
        "NVIDIA H200 MIG 1g.18gb",
        "NVIDIA H200-1-18CME",
        "NVIDIA H200X-141C",
        "NVIDIA H100L-94C",
        "NVIDIA L4-12",
        "NVIDIA A10-24",
        "NVIDIA A10-24Q",
        "NVIDIA A40-48",
        "GRID T4-16C",
        "GRID A100D-80C",
        "GRID RTX T4-16",
        "NVIDIA RTX6000-Ada-48Q",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "Quadro RTX 6000",
        "NVIDIA A100-SXM-64GB",
        "AMD Instinct MI300X VF",
    ],
)
def test_parts_laptops_and_special_makes_are_no_known_chips(name):
    assert find_chip(name) is None


@pytest.mark.parametrize(
    ("name", "mib", "chip"),
    [
        ("NVIDIA H100", 95830, "H100 SXM 94 GB"),
        ("NVIDIA H100", 65247, "H100 SXM 64 GB"),
        ("NVIDIA H100", 81559, None),
        ("NVIDIA H100", None, None),
        ("NVIDIA GeForce RTX 3080", 10240, "RTX 3080 10 GB"),
        ("NVIDIA GeForce RTX 3080", 12288, "RTX 3080 12 GB"),
        ("NVIDIA GeForce RTX 3080", 20480, None),
    ],
)
def test_chips_of_one_name_are_told_apart_by_their_memory(name, mib, chip):
    found = find_chip(name, memory_bytes=None if mib is None else mib * 2**20)
    assert (found.name if found else None) == chip


def test_a_partition_under_the_whole_chips_name_is_told_by_its_multiprocessors():
    assert find_chip("AMD Instinct MI300X", multiprocessors=304) is not None
    assert find_chip("AMD Instinct MI300X", multiprocessors=38) is None
    assert find_chip("AMD Instinct MI300X") is None
