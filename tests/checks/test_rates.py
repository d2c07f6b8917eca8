"""What is said of measured rates, and how a whole machine's links are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded.evidence import on_gpu
from recorded.speed import siblings

from tarmac.checks.inventory import read_inventory
from tarmac.checks.report.make import make_report


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (
            {"flops": {"fp32": 51.6e12, "bf16": 612e12, "fp16": 590e12}},
            "fp32 51.6 of 67 TFLOP/s, bf16 612 of 989 TFLOP/s (79 % of what a healthy one "
            "reaches), fp16 590 of 989 TFLOP/s",
        ),
        # A T4's healthy share of its nominal rate is small.
        (
            {"chip": "Tesla T4", "flops": {"fp16": 24e12}},
            "fp16 24 of 65 TFLOP/s (105 % of what a healthy one reaches)",
        ),
        # What a healthy one reaches is not known of an A10, nothing of the last one.
        ({"chip": "NVIDIA A10", "flops": {"bf16": 60e12}}, "bf16 60 of 125 TFLOP/s"),
        ({"chip": "NVIDIA A10-24Q", "flops": {"bf16": 60e12}}, "bf16 60 TFLOP/s"),
        ({"bus_bytes_per_s": 412e9}, "bus 412 GB/s"),
    ],
)
def test_a_rate_stands_beside_what_the_chip_has_and_a_healthy_one_reaches(device, words):
    (verdict,) = make_report(on_gpu("torch", **device), seconds=1).frameworks
    assert verdict.text == f"1.0, cuda:0: {words}"
    assert verdict.answer == "ok"


def test_a_slow_sibling_is_named_with_how_much_it_lacks():
    rates = [{"flops": {"bf16": rate * 1e12}} for rate in (780, 780, 660, 780)]
    (finding,) = make_report(siblings("NVIDIA H200", *rates), seconds=1).findings
    assert (finding.code, finding.where) == ("slower-than-siblings", ("torch on cuda:2",))
    assert finding.evidence == "660 TFLOP/s in bf16, 15 % below 780, the median of its 3 siblings"


def test_the_inventory_has_the_links_of_cards_without_their_driver(tmp_path: Path):
    port = tmp_path / "sys/devices/pci0000:00/0000:00:01.0"
    card = port / "0000:01:00.0"
    card.mkdir(parents=True)
    for device, kind, lanes in ((port, "0x060400", 16), (card, "0x030000", 8)):
        (device / "vendor").write_text("0x10de\n" if device == card else "0x8086\n")
        (device / "class").write_text(f"{kind}\n")
        for when in ("max", "current"):
            (device / f"{when}_link_speed").write_text("8.0 GT/s PCIe\n")
            (device / f"{when}_link_width").write_text(f"{lanes}\n")
    links = tmp_path / "sys/bus/pci/devices"
    links.mkdir(parents=True)
    for device in (port, card):
        (links / device.name).symlink_to(device)
    (path,) = read_inventory(tmp_path, {}).topology.pcie
    assert (path.address, path.width) == ("0000:01:00.0", 8)
    assert path.slot is not None
