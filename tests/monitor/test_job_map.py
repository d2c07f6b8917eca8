"""The files that tell dcgm-exporter which runs use which GPU."""

from __future__ import annotations

import dataclasses
import os

import pytest
from watched_machine import BUSY, TRAINING, with_host

from tarmac.files import StorageError
from tarmac.machine import LiveHost
from tarmac.monitor import JobMap

HERE = {"host": LiveHost(os.uname().nodename)}


def on(*work, **changes):
    return with_host(work=work, **HERE, **changes)


def contents(directory) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


def test_each_gpu_has_a_file_with_a_line_for_each_of_its_runs(tmp_path):
    other = dataclasses.replace(TRAINING, id="calm-owl", gpu_uuids=("GPU-0", "GPU-1"))
    jobs = JobMap(tmp_path / "map")
    assert jobs.take(on(TRAINING, other)) == ""
    assert contents(tmp_path / "map") == {"0": "brave-fox\ncalm-owl\n", "1": "calm-owl\n"}
    jobs.take(on(other))
    assert contents(tmp_path / "map") == {"0": "calm-owl\n", "1": "calm-owl\n"}


def test_a_run_of_several_parts_is_told_by_the_parts(tmp_path):
    job = dataclasses.replace(TRAINING, id="sweep", kind="job")
    task = dataclasses.replace(TRAINING, id="sweep/lr-1", kind="task", parent="sweep")
    JobMap(tmp_path).take(on(job, task))
    assert contents(tmp_path) == {"0": "sweep/lr-1\n"}


def test_a_slice_of_a_gpu_has_the_file_of_its_gpu(tmp_path):
    part = dataclasses.replace(BUSY, uuid="MIG-1", parent_uuid="GPU-0")
    work = dataclasses.replace(TRAINING, gpu_uuids=("MIG-1",))
    JobMap(tmp_path).take(on(work, gpus=(BUSY, part)))
    assert contents(tmp_path) == {"0": "brave-fox\n"}


def test_at_the_end_our_files_are_removed_and_those_of_others_are_not(tmp_path):
    (tmp_path / "7").write_text("slurm-job\n")
    jobs = JobMap(tmp_path)
    jobs.take(on(TRAINING))
    jobs.close()
    assert contents(tmp_path) == {"7": "slurm-job\n"}
    jobs.close()


def test_what_is_as_it_was_is_not_written_again(tmp_path):
    jobs = JobMap(tmp_path)
    jobs.take(on(TRAINING))
    before = (tmp_path / "0").stat().st_ino
    jobs.take(on(TRAINING))
    assert (tmp_path / "0").stat().st_ino == before


def test_gpus_of_other_hosts_have_no_file_here(tmp_path):
    JobMap(tmp_path).take(with_host())
    assert contents(tmp_path) == {}


def test_a_name_stays_in_its_line(tmp_path):
    JobMap(tmp_path).take(on(dataclasses.replace(TRAINING, id="a\nb\tc")))
    assert contents(tmp_path) == {"0": "a b c\n"}


def test_what_cannot_be_written_is_said_and_tried_again(tmp_path):
    directory = tmp_path / "map"
    directory.write_text("a file")
    jobs = JobMap(directory)
    with pytest.raises(StorageError):
        jobs.take(on(TRAINING))
    directory.unlink()
    jobs.take(on(TRAINING))
    assert contents(directory) == {"0": "brave-fox\n"}
