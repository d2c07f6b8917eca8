"""Samples are thinned as they grow, survive what ends their writer, and read back as columns."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.files import StorageError
from tarmac.runs import SampleFile, read_all_samples, read_samples, samples_path
from tarmac.runs.sample_file import merged

GPU = {"uuid": "GPU-a", "index": 1, "name": "NVIDIA H100", "power_limit_watts": 700.0}


def begin(directory: Path, at_s: float = 0.0, max_points: int = 8, **facts) -> SampleFile:
    file = SampleFile(samples_path(directory), max_points)
    file.note("session", at_s, **({"host": "node1", "gpus": [GPU], "cpu_count": 8} | facts))
    return file


def add(file: SampleFile, at_s: float, watts: float | None = 100.0, **row) -> None:
    energy = None if watts is None else at_s * 100
    gpu = {"power_watts": watts, "energy_joules": energy, "throttle_reasons": [], **row}
    file.add(at_s, {"cpu_ratio": 0.5, "memory_used_bytes": 1000}, {"GPU-a": gpu})


def test_samples_read_back_as_columns_on_the_runs_time_axis(tmp_path):
    file = begin(tmp_path)
    add(file, 0.0, throttled_s={"power": 0.0, "thermal": 0.0})
    add(file, 5.0, 300.0, throttle_reasons=["sw_power_cap"], throttled_s={"power": 2.5})
    file.note("end", 6.0)
    samples = read_samples(tmp_path)
    (gpu,) = samples.gpus
    assert (samples.host, samples.at_s, samples.cpu_count) == ("node1", (0.0, 5.0), 8)
    assert (gpu.uuid, gpu.index, gpu.name) == ("GPU-a", 1, "NVIDIA H100")
    assert gpu.power_watts == (100.0, 300.0)
    assert gpu.throttle_reasons == ((), ("sw_power_cap",))
    assert gpu.temperature_c == (None, None), "what is not known is None, and never 0"
    assert samples.cpu_ratio == (0.5, 0.5)
    assert samples.energy_joules == 500.0
    assert samples.throttled_s == {"power": 2.5}
    assert [event.kind for event in samples.events] == ["start", "end"]


@given(num=st.integers(1, 200), limit=st.integers(2, 20))
def test_there_are_never_more_points_than_asked_and_their_means_are_right(
    tmp_path_factory, num, limit
):
    directory = tmp_path_factory.mktemp("run")
    file = begin(directory, max_points=limit)
    for number in range(num):
        add(file, float(number), float(number))
    file.flush()
    lines = [json.loads(line) for line in samples_path(directory).read_text().splitlines()]
    points = [line for line in lines if line["kind"] == "sample"]
    assert len(points) < max(limit, 2)
    assert sum(point["readings"] for point in points) == num
    total = sum(point["readings"] * point["gpus"]["GPU-a"]["power_watts"] for point in points)
    assert total == pytest.approx(sum(range(num)), abs=1e-2 * num)
    samples = read_samples(directory)
    assert samples.at_s == tuple(sorted(samples.at_s))
    assert samples.at_s[-1] == num - 1
    assert samples.energy_joules == (num - 1) * 100


def test_a_session_that_goes_on_keeps_the_spacing_and_what_was_counted(tmp_path):
    file = begin(tmp_path, max_points=4)
    for number in range(5):
        add(file, float(number), throttled_s={"power": float(number)})
    before = read_samples(tmp_path)
    again = begin(tmp_path, 60.0, max_points=4)
    assert again.counted["GPU-a"] == {"energy_joules": 300.0, "throttled_s": {"power": 3.0}}
    add(again, 61.0)
    assert read_samples(tmp_path).at_s == before.at_s, "a point is of two readings by now"
    add(again, 62.0)
    assert read_samples(tmp_path).at_s[-1] == 62.0
    assert [event.kind for event in read_samples(tmp_path).events] == ["start", "restart"]


def test_reasons_of_merged_points_are_all_that_were_seen():
    points = [
        {"at_s": 1, "gpus": {"a": {"throttle_reasons": ["hw_thermal"], "power_watts": 10}}},
        {"at_s": 2, "readings": 3, "gpus": {"a": {"throttle_reasons": [], "power_watts": 50}}},
        {"at_s": 3, "gpus": {"b": {"power_watts": 7}}},
    ]
    assert merged(points) == {
        "kind": "sample",
        "at_s": 3,
        "readings": 5,
        "gpus": {
            "a": {"throttle_reasons": ["hw_thermal"], "power_watts": 40.0},
            "b": {"power_watts": 7.0},
        },
    }


def test_half_a_line_and_what_is_no_sample_are_left_out(tmp_path):
    file = begin(tmp_path)
    add(file, 0.0)
    with samples_path(tmp_path).open("a") as stream:
        stream.write('[1]\n"text"\n{"kind":"sample"}\n{"kind":"sample","at_s":"soon"}\n')
        stream.write('{"kind":"sample","at_s":NaN}\nnot json\n')
        stream.write('{"kind":"later","at_s":3,"of":"a newer version"}\n')
        stream.write('{"kind":"sample","at_s":4,"gpus":[1],"cpu_ratio":"much","new":1}\n')
        stream.write('{"kind":"sample","at_s":5,"gpus":{"GPU-a":3,"GPU-b":{}},"cpu_ratio":1')
        stream.write("0" * 400 + "}\n")
        stream.write('{"kind":"session","at_s":6,"host":7,"gpus":{"uuid":1}}\n')
        stream.write('{"kind":"sample","at_s":7,"cpu_ra')
    samples = read_samples(tmp_path)
    assert samples.at_s == (0.0, 4.0, 5.0)
    assert samples.cpu_ratio == (0.5, None, None)
    assert [gpu.uuid for gpu in samples.gpus] == ["GPU-a"]
    # Whoever goes on with it takes half a line away, and is as little disturbed by the others.
    again = begin(tmp_path, 8.0)
    add(again, 9.0)
    assert read_samples(tmp_path).at_s == (0.0, 4.0, 5.0, 9.0)
    for number in range(10, 30):
        add(again, float(number))
    assert len(read_samples(tmp_path).at_s) < 8 + 2


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"{}\n", b"null\n[]\n"])
def test_a_file_without_samples_reads_as_none(tmp_path, content):
    samples_path(tmp_path).write_bytes(content)
    samples = read_samples(tmp_path)
    assert (samples.at_s, samples.gpus, samples.energy_joules, samples.throttled_s) == (
        (),
        (),
        None,
        None,
    )
    assert read_all_samples(tmp_path) == ()


def test_a_run_without_samples_and_a_directory_that_is_gone_read_as_none(tmp_path):
    assert read_samples(tmp_path).at_s == ()
    assert read_all_samples(tmp_path / "gone") == ()
    samples_path(tmp_path).mkdir()
    assert read_samples(tmp_path).at_s == ()


def test_each_host_has_a_file_and_the_one_that_leads_comes_first(tmp_path):
    for rank in (10, 2, 0):
        file = SampleFile(samples_path(tmp_path, rank))
        file.note("session", 0.0, host=f"node{rank}")
    (tmp_path / "samples-x.jsonl").write_text('{"kind":"session","at_s":0}\n')
    assert [samples.host for samples in read_all_samples(tmp_path)] == ["node0", "node2", "node10"]


def test_a_full_disk_loses_points_and_leaves_the_file_whole(tmp_path):
    file = begin(tmp_path)
    add(file, 0.0)
    size = samples_path(tmp_path).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
    try:
        with pytest.raises(StorageError):
            add(file, 1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert samples_path(tmp_path).stat().st_size == size
    add(file, 2.0)
    assert read_samples(tmp_path).at_s == (0.0, 2.0)


def test_samples_written_are_whole_lines_at_every_moment(tmp_path):
    file = begin(tmp_path, max_points=4)
    path = samples_path(tmp_path)
    for number in range(20):
        add(file, float(number))
        content = path.read_text()
        assert content.endswith("\n")
        assert all(json.loads(line) for line in content.splitlines())
    assert list(tmp_path.iterdir()) == [path]
