"""An attempt has the GPUs that it asked for, by names that mean one GPU, or is not begun."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tarmac.node.gpus import Gpu, GpuError, choose_gpus

_SLURM = {"SLURM_JOB_ID": "80", "SLURMD_NODENAME": "n7"}
_MACHINES = Path(__file__).parents[1] / "checks" / "machines"

_PRESENT = [Gpu("GPU-aaaa", 80 * 2**30), Gpu("GPU-bbbb", 40 * 2**30)]


def choose(assigned: str, num_gpus: int, **values) -> list[str]:
    names = assigned.split(",") if assigned else []
    rest = {"memory_bytes": None, "giver": "Slurm", "host": "n7", "is_pretending": False}
    return choose_gpus(names, **{"present": _PRESENT, "num_gpus": num_gpus, **rest, **values})


@pytest.mark.parametrize(
    ("assigned", "num_gpus", "chosen"),
    [
        ("", 0, []),
        ("0,1", 0, []),
        ("0", 1, ["GPU-aaaa"]),
        ("1,0", 2, ["GPU-bbbb", "GPU-aaaa"]),
        ("GPU-bb", 1, ["GPU-bbbb"]),
        ("MIG-cccc", 1, ["MIG-cccc"]),
        # A node that was given whole.
        ("0,1", 1, ["GPU-aaaa"]),
    ],
)
def test_numbers_and_parts_of_names_become_uuids(assigned, num_gpus, chosen):
    assert choose(assigned, num_gpus) == chosen


@pytest.mark.parametrize(
    ("assigned", "num_gpus", "values", "words"),
    [
        ("0", 2, {}, "Slurm gave 1 of 2 GPUs on n7; is its gres.conf right?"),
        ("", 1, {"giver": ""}, "the engine gave 0 of 1 GPUs on n7"),
        ("0", 1, {"present": None}, "Slurm gave 1 GPU on n7, but no NVIDIA driver is there"),
        (
            "0",
            1,
            {"present": []},
            "Slurm gave GPU 0 on n7, but its driver shows 0 GPUs, not that one",
        ),
        ("2", 1, {}, "Slurm gave GPU 2 on n7, but its driver shows 2 GPUs, not that one"),
        (
            "1",
            1,
            {"memory_bytes": 64 * 2**30},
            "Slurm gave GPU 1 on n7, which has 40.0 GiB of memory; 64.0 GiB were asked",
        ),
        (
            "0",
            2,
            {"present": None, "is_pretending": True},
            "Slurm gave 1 of 2 GPUs on n7; is its gres.conf right?",
        ),
    ],
)
def test_what_differs_from_what_was_asked_is_said(assigned, num_gpus, values, words):
    with pytest.raises(GpuError) as error:
        choose(assigned, num_gpus, **values)
    assert str(error.value) == words


def test_gpus_are_taken_for_given_where_none_is_and_that_was_asked_for():
    assert choose("0,1", 2, present=None, is_pretending=True) == ["0", "1"]


def test_a_program_gets_uuids_and_so_does_the_record(run, stand_in):
    machine = {"LD_LIBRARY_PATH": str(stand_in), "NVML_STAND_IN": str(_MACHINES / "healthy.txt")}
    element = run.element("sh", "-c", "echo $CUDA_VISIBLE_DEVICES", gpus=1)
    assert run.run(element, SLURM_JOB_GPUS="0", **_SLURM, **machine) == (0, "")
    gpus = run.record(element).gpus
    assert len(gpus) == 1
    assert gpus[0].startswith("GPU-")
    assert run.printed(element) == f"{gpus[0]}\n"


def test_a_driver_that_fails_is_quoted(run, stand_in, tmp_path):
    failing = tmp_path / "failing.txt"
    failing.write_text("init 999\n")
    element = run.element("true", gpus=1)
    machine = {"LD_LIBRARY_PATH": str(stand_in), "NVML_STAND_IN": str(failing)}
    assert run.run(element, CUDA_VISIBLE_DEVICES="0", **machine)[0] == 1
    record = run.record(element)
    assert (record.cause, record.outcome) == ("start", "failed")
    assert record.reason.startswith("not started: NVIDIA's driver fails: ")
    assert record.reason.endswith("(nvmlInit_v2)")


def test_a_node_without_a_driver_is_named(run):
    # Where this machine has one, the agent must not see it.
    hidden = run.path / "empty"
    hidden.mkdir()
    (hidden / "libnvidia-ml.so.1").write_text("no library\n")
    element = run.element("true", gpus=2)
    variables = {"CUDA_VISIBLE_DEVICES": "0,1", "LD_LIBRARY_PATH": str(hidden), **_SLURM}
    assert run.run(element, **variables) == (1, "")
    assert run.record(element).reason == (
        "not started: Slurm gave 2 GPUs on n7, but no NVIDIA driver is there"
    )
    assert not (Path(element.directory) / "work").exists()


@pytest.mark.gpu
@pytest.mark.skipif(not shutil.which("nvidia-smi"), reason="needs nvidia-smi of NVIDIA's driver")
def test_the_gpus_of_this_machine_are_named_as_nvidia_smi_names_them():
    from tarmac.node.nvml import read_gpus

    asked = ["nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split("\n")
    present = read_gpus()
    assert present is not None
    assert [gpu.uuid for gpu in present] == [line.split(",")[0] for line in listed if line]
    sizes = [int(line.split(",")[1]) for line in listed if line]
    assert [gpu.memory_bytes // 2**20 for gpu in present] == sizes
