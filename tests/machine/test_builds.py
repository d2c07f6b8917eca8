"""Which build of PyTorch a machine is to have, and what a build runs on."""

from __future__ import annotations

import pytest

from tarmac.machine import RELEASES, BuildChoice, choose_build, is_driver_too_old, runs_on


@pytest.mark.parametrize(
    ("architectures", "capability", "expected"),
    [
        (("sm_80",), (8, 0), True),
        (("sm_80",), (8, 9), True),
        (("sm_86",), (8, 0), False),
        (("sm_80",), (9, 0), False),
        (("compute_80",), (9, 0), True),
        (("compute_90",), (8, 0), False),
        (("sm_90a",), (9, 0), True),
        (("sm_100a",), (10, 3), False),
        (("compute_90a",), (10, 0), False),
        (("sm_100f",), (10, 3), True),
        (("sm_100f",), (12, 0), False),
        (("sm_120",), (12, 1), True),
        # Nothing is known of the build, such as one for AMD's GPUs.
        ((), (9, 0), True),
        (("gfx90a",), (9, 0), True),
    ],
)
def test_a_chip_runs_code_of_its_own_and_of_older_minor_versions(
    architectures, capability, expected
):
    assert runs_on(architectures, capability) is expected


@pytest.mark.parametrize(
    ("built", "driver", "expected"),
    [
        ("13.0", "12.8", True),
        ("13.2", "13.0", False),
        ("12.6", "13.0", False),
        (None, "12.8", False),
        ("13.0", None, False),
    ],
)
def test_a_driver_is_too_old_for_a_later_major_version_of_cuda(built, driver, expected):
    assert is_driver_too_old(built, driver) is expected


@pytest.mark.parametrize(
    ("driver", "chips", "expected"),
    [
        # The newest whose major version the driver runs.
        ("13.0", [(9, 0)], BuildChoice("cu132")),
        ("12.8", [(9, 0)], BuildChoice("cu129")),
        ("12.2", [(8, 0)], BuildChoice("cu129")),
        (None, [], BuildChoice("cu132")),
        # With code for every GPU.
        ("13.0", [(6, 1)], BuildChoice("cu126")),
        ("13.0", [(7, 0), (9, 0)], BuildChoice("cu126")),
        ("13.0", [(7, 5), (12, 0)], BuildChoice("cu132")),
        ("13.0", [(10, 3)], BuildChoice("cu132")),
        # There is none for both.
        ("13.0", [(7, 0), (12, 0)], BuildChoice("cu132", left_out=((7, 0),), is_mix=True)),
        # The driver is older than the chip, or than every build.
        ("12.4", [(12, 0)], BuildChoice("cu129", needs_driver="12.8")),
        ("12.8", [(10, 3)], BuildChoice("cu129", needs_driver="12.9")),
        (
            "11.4",
            [(8, 0)],
            BuildChoice("cu129", needs_driver="12.0", meanwhile=BuildChoice("cu118", "2.7.1")),
        ),
        # Chips that releases have left behind; their newest driver is of CUDA 11.
        ("11.4", [(3, 7)], BuildChoice("cu118", "2.0.1")),
        ("11.4", [(3, 5)], BuildChoice(None, left_out=((3, 5),))),
        ("12.2", [(3, 7), (9, 0)], BuildChoice("cu129", left_out=((3, 7),))),
    ],
)
def test_the_build_suits_driver_and_every_chip(driver, chips, expected):
    assert choose_build(driver, chips) == expected


def test_builds_for_arm_have_code_of_their_own():
    choice = choose_build("13.0", [(11, 0)], processor="aarch64")
    assert choice == BuildChoice("cu132")
    assert choose_build("13.0", [(7, 0)], processor="aarch64").index is None
    assert choose_build("12.8", [(11, 0)], processor="aarch64").needs_driver == "13.0"


def test_a_releases_own_table_goes_before_the_one_that_is_kept_here():
    releases = {"12.6": {"x86_64": [70, 90]}, "12.8": {"x86_64": [90, 100]}}
    assert choose_build("13.0", [(9, 0)], releases=releases) == BuildChoice("cu128")
    assert choose_build("13.0", [(7, 0)], releases=releases) == BuildChoice("cu126")


def test_the_table_that_is_kept_here_is_pytorchs():
    torch = pytest.importorskip("torch")
    own = torch.cuda.PYTORCH_RELEASES_CODE_CC
    if not torch.__version__.startswith("2.13."):
        pytest.skip("the table is of PyTorch 2.13")
    assert {
        cuda: {processor: set(codes) for processor, codes in table.items()}
        for cuda, table in RELEASES.items()
    } == own
