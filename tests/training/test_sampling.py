"""A training samples its GPUs and its host beside it, and nothing of that disturbs it."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tarmac import runs
from tarmac.files import StorageError
from tarmac.machine import Device, LiveGpu, LiveHost, NvmlProblem
from tarmac.training import make_plan, resume, train
from tarmac.training.planning.options import Options
from tarmac.training.session import sampling
from tarmac.training.session.gpu_meter import GpuMeter
from tarmac.training.session.sampling import Sampler
from tarmac.training.session.utilization import model_flops_utilization
from tarmac.workloads import find_workload
from waiting import limit_s, wait_until

MACHINES = Path(__file__).parents[1] / "checks" / "machines"

SMALL = {"epochs": 1, "train_size": 64, "devices": "cpu"}


class Gpus:
    """Answers with readings, the last one again and again."""

    def __init__(self, *readings: tuple[LiveGpu, ...]) -> None:
        self.readings = list(readings)
        self.is_closed = False

    def read(self) -> tuple[LiveGpu, ...]:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]

    def close(self) -> None:
        self.is_closed = True


class Host:
    def read(self) -> LiveHost:
        return LiveHost("node1", cpu_count=4, cpu_ratio=0.25, memory_used_bytes=10)


def gpu(uuid: str = "GPU-a", **values) -> LiveGpu:
    return LiveGpu(index=0, uuid=uuid, name="NVIDIA H100", **values)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A last reading is waited for, however busy the machine is."""
    monkeypatch.setattr(sampling, "_PATIENCE_S", 200.0)


def make_run(output: Path) -> runs.Run:
    return runs.Run.create(
        output,
        workload="w",
        command=[],
        configuration={},
        dataset={},
        device={},
        versions={},
        seed=0,
        git=None,
        expectation=None,
    )


def sampler(run: runs.Run, reader: object, uuids=("GPU-a",), **options) -> Sampler:
    return Sampler(run, uuids, open_gpus=lambda: reader, open_host=Host, **options)


def test_a_session_too_short_for_the_interval_has_its_first_and_its_last_reading(tmp_path):
    run = make_run(tmp_path)
    reader = Gpus(
        (gpu(energy_joules=1000.0, power_watts=90.0), gpu("GPU-other", power_watts=1.0)),
        (gpu(energy_joules=1600.0, power_watts=300.0), gpu("GPU-other", power_watts=1.0)),
    )
    with sampler(run, reader):
        pass
    samples = runs.read_samples(run.path)
    assert [own.uuid for own in samples.gpus] == ["GPU-a"], "those of others are left out"
    assert samples.gpus[0].power_watts == (90.0, 300.0)
    assert samples.energy_joules == 600.0
    assert samples.cpu_ratio == (0.25, 0.25)
    assert [event.kind for event in samples.events] == ["start", "end"]
    assert reader.is_closed


def test_a_session_that_is_over_before_its_thread_begins_has_a_first_and_a_last_reading(tmp_path):
    run = make_run(tmp_path)

    def open_host():
        assert seen._is_over.wait(limit_s(60))
        return Host()

    seen = Sampler(run, [], open_host=open_host)
    with seen:
        pass
    assert runs.read_samples(run.path).cpu_ratio == (0.25, 0.25)


def test_readings_come_again_and_again_while_it_lasts(tmp_path):
    run = make_run(tmp_path)
    enough = threading.Event()

    class Counting(Gpus):
        num_read = 0

        def read(self):
            self.num_read += 1
            if self.num_read == 5:
                enough.set()
            return super().read()

    with sampler(run, Counting((gpu(power_watts=1.0),)), interval_s=0.001):
        assert enough.wait(limit_s(60))
    assert len(runs.read_samples(run.path).at_s) >= 5


def test_a_later_session_goes_on_counting_and_is_a_restart(tmp_path):
    run = make_run(tmp_path)
    for first, last in ((100.0, 150.0), (7.0, 27.0)):  # the driver was loaded anew between them
        with sampler(run, Gpus((gpu(energy_joules=first),), (gpu(energy_joules=last),))):
            pass
    samples = runs.read_samples(run.path)
    assert samples.energy_joules == 70.0
    assert [event.kind for event in samples.events] == ["start", "end", "restart", "end"]


def test_lost_workers_are_noted_with_their_reason(tmp_path):
    run = make_run(tmp_path)
    enough = threading.Event()

    class Told(Host):
        def read(self):
            # The file is open by the second reading.
            if runs.samples_path(run.path).exists():
                enough.set()
            return super().read()

    with Sampler(run, [], open_host=Told, interval_s=0.001) as seen:
        assert enough.wait(limit_s(60))
        seen.workers_lost("worker 1 was ended by SIGKILL")
    seen.workers_lost("too late")
    events = runs.read_samples(run.path).events
    assert [event.kind for event in events] == ["start", "workers_lost", "end"]
    assert events[1].text == "worker 1 was ended by SIGKILL"


def test_without_a_driver_the_host_alone_is_sampled(tmp_path):
    run = make_run(tmp_path)
    with sampler(run, NvmlProblem("NVML: Driver Not Loaded", is_absence=True)):
        pass
    samples = runs.read_samples(run.path)
    assert (samples.gpus, samples.energy_joules, samples.cpu_ratio) == ((), None, (0.25, 0.25))


def test_a_gpu_that_is_lost_has_gaps_and_keeps_what_it_had_used(tmp_path):
    run = make_run(tmp_path)
    reader = Gpus((gpu(energy_joules=5.0),), (gpu(energy_joules=9.0),), (gpu(error="lost"),))
    seen = sampler(run, reader, interval_s=0.001)
    with seen:
        wait_until(lambda: len(runs.read_samples(run.path).at_s) >= 3, "three samples")
    samples = runs.read_samples(run.path)
    assert samples.gpus[0].energy_joules[2] is None
    assert samples.energy_joules == 4.0


def test_a_driver_that_hangs_keeps_no_training_from_ending(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "_PATIENCE_S", 0.01)
    run = make_run(tmp_path)
    is_asked, answers = threading.Event(), threading.Event()

    def hang():
        is_asked.set()
        answers.wait(limit_s(60))
        return Gpus((gpu(),))

    seen = Sampler(run, ["GPU-a"], open_gpus=hang, open_host=Host)
    with seen:
        assert is_asked.wait(limit_s(60))
    answers.set()
    thread = seen._thread
    assert thread is not None
    thread.join(limit_s(60))
    assert not runs.samples_path(run.path).exists(), "what comes after the end is not written"


def test_a_disk_that_is_full_for_a_while_costs_points_and_nothing_else(tmp_path, monkeypatch):
    run = make_run(tmp_path)
    write = runs.SampleFile.add
    failures = [StorageError("disk full"), None]

    def add(self, *arguments, **values):
        failure = failures.pop(0) if failures else None
        if failure is not None:
            raise failure
        write(self, *arguments, **values)

    monkeypatch.setattr(runs.SampleFile, "add", add)
    with sampler(run, Gpus((gpu(power_watts=1.0),))):
        pass
    assert len(runs.read_samples(run.path).at_s) == 1


def test_nothing_is_made_where_the_runs_directory_is_not(tmp_path):
    run = make_run(tmp_path)
    elsewhere = runs.Run(tmp_path / "not-shared", run.record)
    with sampler(elsewhere, Gpus((gpu(),)), rank=8):
        pass
    assert not elsewhere.path.exists()


def test_energy_is_what_the_gpu_counted_or_its_power_over_time():
    counts = GpuMeter({"energy_joules": 50.0, "throttled_s": {"power": 1.0}})
    counts.row(0.0, gpu(energy_joules=1.0, throttled_s={"power": 9.0}))
    row = counts.row(5.0, gpu(energy_joules=3.0, throttled_s={"power": 9.5, "thermal": 4.0}))
    assert row["energy_joules"] == 52.0
    assert row["throttled_s"] == {"power": 1.5, "thermal": 0.0}
    measures = GpuMeter({})
    assert measures.row(0.0, gpu(power_watts=100.0))["energy_joules"] == 0.0
    assert measures.row(10.0, gpu(power_watts=200.0))["energy_joules"] == 1500.0
    knows_nothing = GpuMeter({})
    knows_nothing.row(0.0, gpu())
    assert knows_nothing.row(5.0, gpu())["energy_joules"] is None
    assert knows_nothing.row(5.0, gpu())["throttled_s"] is None


def test_a_training_keeps_samples_and_its_epochs_say_what_they_waited_for(tmp_path):
    run = train("digits-mlp", output=tmp_path, **SMALL)
    samples = runs.read_samples(run.path)
    assert len(samples.at_s) >= 2
    assert [event.kind for event in samples.events] == ["start", "end"]
    (row,) = run.history
    assert 0 <= row["data_wait_s"] <= row["seconds"]
    assert "rank_wait_s" not in row, "it is alone"
    record = runs.Run.open(run.path).record
    assert (record.energy_joules, record.throttled_s, record.mfu) == (None, None, None)
    assert record.configuration["sampling"] is True
    assert not [t for t in threading.enumerate() if t.name == "tarmac-samples"]


def test_samples_know_how_many_steps_were_done(tmp_path):
    run = train("digits-mlp", output=tmp_path, **SMALL | {"epochs": 2, "batch_size": 16})
    lines = runs.samples_path(run.path).read_text().splitlines()
    samples = [line for line in map(json.loads, lines) if line["kind"] == "sample"]
    assert samples[-1]["steps"] == 2 * 64 // 16


def test_a_training_that_is_told_not_to_keeps_none(tmp_path):
    run = train("digits-mlp", output=tmp_path, sampling=False, **SMALL)
    assert not runs.samples_path(run.path).exists()
    assert run.record.configuration["sampling"] is False


def test_sampling_changes_no_bit(tmp_path):
    weights = [
        train("digits-mlp", output=tmp_path, sampling=on, **SMALL).model.read_bytes()
        for on in (True, False)
    ]
    assert weights[0] == weights[1]


def test_a_training_that_goes_on_shows_its_restart(tmp_path):
    stopped = train("digits-mlp", output=tmp_path, interrupted=lambda: True, **SMALL)
    assert stopped.record.status == "interrupted"
    run = resume(stopped.path)
    kinds = [event.kind for event in runs.read_samples(run.path).events]
    assert kinds == ["start", "end", "restart", "end"]


def test_a_training_that_fails_has_what_was_sampled(tmp_path):
    class BrokenError(Exception):
        pass

    def stop(row):
        raise BrokenError

    with pytest.raises(BrokenError):
        train("digits-mlp", output=tmp_path, stop=stop, **SMALL)
    (run,) = runs.list_runs(tmp_path)[0]
    assert run.status == "failed"
    assert [event.kind for event in runs.read_samples(run.path).events] == ["start", "end"]


def test_workers_are_sampled_once_by_what_starts_them(tmp_path):
    run = train("digits-mlp", output=tmp_path, **SMALL | {"devices": "cpu:2", "strategy": "ddp"})
    assert sorted(path.name for path in run.path.glob("samples*")) == ["samples.jsonl"]
    assert [event.kind for event in runs.read_samples(run.path).events] == ["start", "end"]
    (row,) = run.history
    assert 0 <= row["rank_wait_s"] <= row["seconds"]


def test_a_killed_training_leaves_whole_samples_and_goes_on(tmp_path):
    code = f"""
import os, signal, sys
from pathlib import Path
from tarmac.training import train
def stop(row):
    while not any('"sample"' in path.read_text() for path in Path(sys.argv[1]).glob("*/samples*")):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
train("digits-mlp", output=sys.argv[1], stop=stop, **{SMALL!r})
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path], check=False, timeout=limit_s(280)
    )
    assert ended.returncode == -signal.SIGKILL
    (found,) = runs.list_runs(tmp_path)[0]
    assert runs.read_samples(found.path).at_s
    with runs.samples_path(found.path).open("a") as stream:
        stream.write('{"kind":"sample","at_s":5')
    run = resume(found.path)
    lines = runs.samples_path(run.path).read_text().splitlines()
    assert all(json.loads(line) for line in lines)
    kinds = [event.kind for event in runs.read_samples(run.path).events]
    assert kinds == ["start", "restart", "end"], "one that was killed has no end"


def test_what_a_driver_counts_while_it_trains_is_the_runs(on_machine, tmp_path):
    machine, clock = tmp_path / "machine.txt", tmp_path / "clock"
    machine.write_text(
        "0.field.83 5000000 | 1000ms 5090000\n0.power 100000 | 1000ms 300000\n"
        "0.field.186 100000 | 1000ms 300000\nlike healthy\n"
    )
    shutil.copy(MACHINES / "healthy.txt", tmp_path)
    clock.write_text("0")
    make_run(tmp_path / "runs")
    code = """
import os, sys
from pathlib import Path
from tarmac import runs
from tarmac.machine import open_live_reader
from tarmac.training.session import sampling
# However busy the machine is.
sampling._PATIENCE_S = 200.0
def open_gpus():
    return open_live_reader(patience_s=200.0)
(path,) = Path(sys.argv[1]).iterdir()
run = runs.Run.open(path)
with open_gpus() as reader:
    uuids = [gpu.uuid for gpu in reader.read()]
with sampling.Sampler(run, uuids, interval_s=3600.0, open_gpus=open_gpus):
    while not runs.read_samples(path).at_s:
        pass
    new = Path(sys.argv[2])
    new.with_name("new").write_text("10000")
    new.with_name("new").replace(new)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "runs", clock],
        env=on_machine("healthy", NVML_STAND_IN=str(machine), NVML_STAND_IN_CLOCK=str(clock)),
        check=False,
        timeout=limit_s(280),
    )
    assert done.returncode == 0
    (found,) = runs.list_runs(tmp_path / "runs")[0]
    samples = runs.read_samples(found.path)
    (own,) = samples.gpus
    assert own.uuid == "GPU-7d3c132a-675f-077e-3bf7-99d79213d062"
    assert (own.name, own.power_limit_watts) == ("NVIDIA H200", 700.0)
    assert own.power_watts == (100.0, 300.0)
    assert samples.energy_joules == 90.0


def h100(**changes) -> Device:
    device = Device(
        type="cuda",
        index=0,
        name="NVIDIA H100 80GB HBM3",
        uuid="GPU-a",
        memory_bytes=80 * 2**30,
        available_bytes=80 * 2**30,
        bf16_matrix_units=True,
        compute_capability=(9, 0),
        num_threads=0,
    )
    return dataclasses.replace(device, **changes)


def test_mfu_is_what_the_products_needed_of_what_the_chip_can_do():
    workload = find_workload("digits-mlp")
    plan = make_plan(workload, "digits-mlp", Options(devices="cpu"))
    history = [{"seconds": 2.0, "samples_per_s": 1e6}, {"seconds": 3.0, "samples_per_s": 1e6}]
    on_gpus = dataclasses.replace(plan, devices=(h100(), h100(index=1)), world_size=2)
    used = model_flops_utilization(dataclasses.replace(on_gpus, precision="bf16"), history)
    assert used == pytest.approx(plan.sample_flops * 1e6 / (2 * 989e12), rel=0.01)
    assert model_flops_utilization(dataclasses.replace(on_gpus, precision="tf32"), history) is None
    assert model_flops_utilization(on_gpus, []) is None
    assert model_flops_utilization(plan, history) is None, "a CPU has no rate in the table"
    for other in (h100(name="NVIDIA Unheard-of"), h100(uuid="MIG-1")):
        unknown = dataclasses.replace(on_gpus, devices=(other,), world_size=1)
        assert model_flops_utilization(unknown, history) is None
